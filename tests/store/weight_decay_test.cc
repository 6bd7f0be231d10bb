// Weight decay spares the variables that the job excludes.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "store/optimizer.h"

namespace paracord {
namespace {

using nlohmann::json;

TEST_CASE("variables are excluded from weight decay by their own names or by whole ones") {
  const auto decays = [](json names, const std::string& variable) {
    const absl::StatusOr<Optimizer> optimizer =
        ParseOptimizer({"adamw", {{"exclude_from_weight_decay", std::move(names)}}});
    REQUIRE(optimizer.ok());
    VariableSpec spec;
    spec.set_name(variable);
    return OptimizerFor(spec, *optimizer).weight_decay.has_value();
  };
  const json names = {"bias", "gamma"};
  CHECK_FALSE(decays(names, "dense/bias"));
  CHECK_FALSE(decays(names, "bn/gamma"));
  CHECK(decays(names, "dense/kernel"));
  CHECK(decays(names, "bias_layer/kernel"));  // Keras 3 looks only at the variable's name
  CHECK_FALSE(decays({"^ker.*l$"}, "dense/kernel"));
  CHECK_FALSE(decays({"bias_layer/"}, "bias_layer/kernel"));
  CHECK(decays({"bias_layer/"}, "dense/kernel"));
  CHECK(decays(json::array(), "dense/bias"));
  // A name on which a backtracking regular expression would take forever.
  CHECK(decays({"(a+)+/kernelX"}, std::string(40, 'a') + "/kernel"));
  const std::string nested = std::string(100000, '(') + "kernel" + std::string(100000, ')');
  CHECK_FALSE(decays({nested}, "dense/kernel"));
  CHECK(decays({nested}, "dense/bias"));
  CHECK_FALSE(decays({"^(?:a|b){2}/(?P<own>\\w+)$"}, "ab/kernel"));
}

TEST_CASE("an expression that is none, or asks for what there is not, is refused with the reason") {
  const auto problem = [](const std::string& name) {
    const json options = {{"exclude_from_weight_decay", {name}}};
    return std::string(ParseOptimizer({"adamw", options}).status().message());
  };
  CHECK(absl::StrContains(problem("("), "\"(\" is no regular expression: \"missing )"));
  CHECK(absl::StrContains(problem("(a)\\1"), "invalid escape sequence: "));
  CHECK(absl::StrContains(problem("(?!a)b"), "invalid perl operator: (?!"));
  CHECK(problem(std::string(5000, '(')).size() < 300);
  CHECK(absl::StrContains(problem("((a{500}){500}){500}"), "is no regular expression"));
}

}  // namespace
}  // namespace paracord
