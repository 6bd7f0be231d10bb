// Sequence layers refuse unsupported configs and say what to do.
#include <catch2/catch.hpp>

#include "keras/build.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

std::string Refused(const std::string& layer, json config, std::vector<uint64_t> input) {
  config["name"] = "a";
  const json model =
      SequentialJson({LayerJson(layer, std::move(config)), LayerJson("Flatten", json::object()),
                      LayerJson("Dense", {{"name", "last"}, {"units", 2}})});
  return std::string(
      BuildKerasProgram(JobFor(model, "mse"), SchemaOf(std::move(input), {2}), TestOps())
          .status()
          .message());
}

struct SequenceCase {
  const char* layer;
  json config;
  std::vector<uint64_t> input;
  std::string refused;  // part of the message; empty: supported
};

json Nested(json layer) {
  for (int i = 0; i < 100; ++i) layer = LayerJson("TimeDistributed", {{"layer", layer}});
  return layer;
}

json Returning(json layer, const char* key) {
  layer["config"][key] = true;
  return layer;
}

const json kDense = LayerJson("Dense", {{"units", 2}}), kLstm = LayerJson("LSTM", {{"units", 2}}),
           kWider = LayerJson("LSTM", {{"units", 3}}), kGru = LayerJson("GRU", {{"units", 2}}),
           kRegular = LayerJson("LSTM", {{"units", 2}, {"activity_regularizer", "l2"}});
const SequenceCase kSequenceCases[] = {
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
     {{"units", 2}, {"recurrent_constraint", {{"class_name", "RadialConstraint"}}}},
     {4, 3},
     "key \"recurrent_constraint\": {\"class_name\":\"RadialConstraint\"} is not supported; "
     "supported: NonNeg, MaxNorm"},
    {"SimpleRNN", {{"units", 1 << 30}}, {4, 3}, "beyond"},
    {"TimeDistributed", {{"layer", kDense}}, {4, 3}, ""},
    {"TimeDistributed", json::object(), {4, 3}, "key \"layer\": must be a layer"},
    {"TimeDistributed",
     {{"layer", {{"class_name", 3}, {"config", json::object()}}}},
     {4, 3},
     "key \"layer\": layer"},
    {"TimeDistributed", {{"layer", kDense}}, {4}, "needs an input of steps"},
    {"TimeDistributed", {{"layer", kLstm}}, {4, 3}, "needs an input of (steps, features)"},
    {"TimeDistributed", {{"layer", Nested(kDense)}}, {4, 3}, "too many layers within layers"},
    {"Bidirectional", {{"layer", kLstm}}, {4, 3}, ""},
    {"Bidirectional", {{"layer", kLstm}, {"merge_mode", "max"}}, {4, 3}, "key \"merge_mode\""},
    {"Bidirectional", {{"layer", kDense}}, {4, 3}, "key \"layer\": \"Dense\" is not supported"},
    {"Bidirectional",
     {{"layer", Returning(kLstm, "return_state")},
      {"backward_layer", Returning(kGru, "return_state")}},
     {4, 3},
     "must have as many states as the forward layer returns"},
    {"Bidirectional",
     {{"layer", kLstm}, {"backward_layer", Returning(kGru, "return_sequences")}},
     {4, 3},
     "must have return_sequences and return_state of the forward layer"},
    {"Bidirectional", {{"layer", kLstm}, {"backward_layer", kGru}}, {4, 3}, ""},
    {"Bidirectional",
     {{"layer", kLstm}, {"backward_layer", kDense}},
     {4, 3},
     "key \"backward_layer\": \"Dense\" is not supported"},
    {"Bidirectional", {{"layer", kLstm}, {"backward_layer", kWider}}, {4, 3}, "as many units"},
    {"Bidirectional",
     {{"layer", kRegular}, {"merge_mode", "sum"}},
     {4, 3},
     "an activity_regularizer there must be that of both directions"},
    {"Bidirectional",
     {{"layer", kRegular}, {"backward_layer", kLstm}},
     {4, 3},
     "an activity_regularizer there must be that of both directions"},
    {"MultiHeadAttention", {{"num_heads", 1}, {"key_dim", 2}}, {4, 3}, "a query and a value"},
    {"MultiHeadAttention",
     {{"num_heads", 1}, {"key_dim", 2}, {"attention_axes", {2}}},
     {4, 3},
     "key \"attention_axes\""},
    {"MultiHeadAttention",
     {{"num_heads", 1}, {"key_dim", 2}, {"attention_axes", {{"last", 1}}}},
     {4, 3},
     "key \"attention_axes\": must be axes"},
    {"MultiHeadAttention",
     {{"num_heads", 1}, {"key_dim", 2}, {"attention_axes", {5000}}},
     {4, 3},
     "key \"attention_axes\": must be axes"},
    {"Softmax", {{"axis", {1, -1}}}, {4, 3}, ""},
    {"Softmax", {{"axis", {2, -1}}}, {4, 3}, "key \"axis\": 2 is no axis of (4, 3)"},
    {"LayerNormalization", {{"axis", {1, -1}}}, {4, 3}, "or not in order"},
    {"PReLU", {{"shared_axes", {3}}}, {4, 3}, "key \"shared_axes\": 3 is no axis of (4, 3)"},
    {"GroupNormalization", {{"groups", 2}}, {4, 3}, "3 channels do not make 2 groups"},
    {"RMSNormalization", {{"axis", {1}}}, {4, 3}, "key \"axis\": must be the last axes"},
    {"Rescaling", {{"scale", {1, 2}}}, {4, 3}, "key \"scale\": numbers of shape (2,)"},
    {"Rescaling", {{"offset", {{1, 2, 3}, {4}}}}, {4, 3}, "key \"offset\": must be a number"},
    {"Activation", {{"activation", "glu"}}, {4, 3}, "needs a last axis of even size"},
    {"Dense",
     {{"units", 2}, {"activity_regularizer", {{"class_name", "OrthogonalRegularizer"}}}},
     {3},
     "key \"activity_regularizer\""},
};

TEST_CASE("unsupported layers over sequences are refused, naming layer and key") {
  for (const auto& [layer, config, input, message] : kSequenceCases) {
    const std::string got = Refused(layer, config, input);
    INFO(message << "\n got " << got);
    CHECK(got.empty() == message.empty());
    CHECK(got.find(message) != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
