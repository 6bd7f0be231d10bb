// What layers over sequences refuse, with words that say what to do.
#include <catch2/catch.hpp>

#include "model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

std::string Refused(const std::string& layer, json config, std::vector<uint64_t> input) {
  config["name"] = "a";
  const json model =
      SequentialJson({LayerJson(layer, std::move(config)), LayerJson("Flatten", json::object()),
                      LayerJson("Dense", {{"name", "last"}, {"units", 2}})});
  return std::string(BuildKerasProgram(JobFor(model, "mse"), SchemaOf(std::move(input), {2}), 1)
                         .status()
                         .message());
}

TEST_CASE("layers over sequences that cannot be had are refused by layer and key") {
  const std::vector<std::tuple<const char*, json, std::vector<uint64_t>, std::string>> table = {
      {"LSTM", {{"units", 2}}, {4, 3}, ""},
      {"LSTM", json::object(), {4, 3}, "layer \"a\" (LSTM): key \"units\": is missing"},
      {"LSTM", {{"units", 2}}, {4}, "needs an input of (steps, features), not (4,)"},
      {"LSTM", {{"units", 2}}, {4, 3, 2}, "needs an input of (steps, features)"},
      {"LSTM", {{"units", 2}, {"stateful", true}}, {4, 3}, "key \"stateful\": is not supported"},
      {"LSTM", {{"units", 2}, {"time_major", true}}, {4, 3}, "key \"time_major\""},
      {"GRU", {{"units", 2}, {"dropout", 1}}, {4, 3}, "key \"dropout\": must be at least 0"},
      {"GRU", {{"units", 2}, {"recurrent_dropout", -1}}, {4, 3}, "key \"recurrent_dropout\""},
      {"GRU", {{"units", 2}, {"activation", "tan"}}, {4, 3}, "did you mean \"tanh\"?"},
      {"SimpleRNN",
       {{"units", 2}, {"recurrent_constraint", {{"class_name", "MaxNorm"}}}},
       {4, 3},
       "key \"recurrent_constraint\": constraints are not supported"},
      {"SimpleRNN", {{"units", 1 << 30}}, {4, 3}, "beyond"},
  };
  for (const auto& [layer, config, input, message] : table) {
    const std::string got = Refused(layer, config, input);
    INFO(message << "\n got " << got);
    CHECK(got.empty() == message.empty());
    CHECK(got.find(message) != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
