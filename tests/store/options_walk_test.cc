// Tries every optimizer with every option of Keras. An option that differs from its default must be
// honoured or refused by name, and an unknown option refused.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "store/optimizer.h"

namespace paracord {
namespace {

using nlohmann::json;

// Values that are no optimizer's default.
const std::vector<std::pair<std::string, json>> kOptions = {
    {"learning_rate", 0.375},
    {"lr", 0.375},
    {"decay", 0.125},
    {"momentum", 0.375},
    {"nesterov", true},
    {"initial_accumulator_value", 0.375},
    {"rho", 0.375},
    {"epsilon", 0.375},
    {"centered", true},
    {"beta_1", 0.375},
    {"beta_2", 0.375},
    {"amsgrad", true},
    {"adaptive_epsilon", true},
    {"learning_rate_power", -0.375},
    {"l1_regularization_strength", 0.375},
    {"l2_regularization_strength", 0.375},
    {"l2_shrinkage_regularization_strength", 0.375},
    {"beta", 0.375},
    {"weight_decay", 0.375},
    {"clipvalue", 0.375},
    {"use_ema", true},
    {"ema_momentum", 0.375},
    {"ema_overwrite_frequency", 3},
    {"loss_scale_factor", 2},
    {"gradient_accumulation_steps", 2},
    {"relative_step", false},
    {"beta_2_decay", -0.5},
    {"nonsense", 1},
    {"nonsense", false}};

std::string Said(const Optimizer& o) {
  std::string text = absl::StrCat(static_cast<int>(o.rule), " ", RateAt(o.learning_rate, 0), " ",
                                  RateAt(o.learning_rate, 7), " ", o.momentum, " ", o.rho, " ",
                                  o.beta_1, " ", o.beta_2, " ", o.epsilon, " ", o.nesterov,
                                  o.centered, o.amsgrad, " ", o.learning_rate_power, " ", o.l1, " ",
                                  o.l2, " ", o.l2_shrinkage, " ", o.beta, " ");
  absl::StrAppend(&text, o.weight_decay.value_or(-1), " ", o.clipvalue.value_or(-1), " ", o.use_ema,
                  " ", o.ema_momentum, " ", o.ema_overwrite_frequency);
  for (const SlotSpec& slot : o.slots) absl::StrAppend(&text, " ", slot.name, slot.initial);
  return text;
}

TEST_CASE("each option of each optimizer is honoured or refused by name") {
  const std::string unknown(ParseOptimizer({"nonsense"}).status().message());
  const size_t list = unknown.find("there is only: ");
  REQUIRE(list != std::string::npos);
  const std::vector<std::string> names = absl::StrSplit(unknown.substr(list + 15), ", ");
  CHECK(names.size() == 10);
  for (const std::string& name : names) {
    const auto plain = ParseOptimizer({name});
    INFO(name << ": " << plain.status());
    REQUIRE(plain.ok());
    for (const auto& [option, value] : kOptions) {
      const auto with = ParseOptimizer({name, {{option, value}}});
      INFO(option << " " << value << ": " << with.status());
      if (with.ok()) {
        CHECK(Said(*with) != Said(*plain));
      } else {
        CHECK(absl::StrContains(with.status().message(), "optimizer." + option));
      }
      if (option == "nonsense") CHECK_FALSE(with.ok());
    }
  }
}

}  // namespace
}  // namespace paracord
