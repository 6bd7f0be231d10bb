// Tests the warnings for losses and metrics that misread the model's last layer.
#include "keras/output_doubts.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "keras/build.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

json Last(const std::string& activation, int units = 3) {
  return LayerJson("Dense", {{"name", "d"}, {"units", units}, {"activation", activation}});
}

// Returns the warnings for a model with these layers, one per line.
std::vector<std::string> Doubts(const std::vector<json>& layers, const NamedSpec& loss,
                                const std::vector<NamedSpec>& metrics = {}) {
  Job job = JobFor(SequentialJson(layers), "mse");
  job.loss = loss;
  job.metrics = metrics;
  const auto model = ReadKerasModel(job.model);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  return OutputDoubts(job, *model);
}

TEST_CASE("logits given to a loss of probabilities are doubted") {
  const std::string logits =
      "takes probabilities, but layer \"d\" (Dense) has no activation, so that its outputs are "
      "logits: set \"from_logits\": true in the loss, or give the model a last activation ";
  for (const auto& [loss, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"sparse_categorical_crossentropy", "softmax"},
           {"categorical_crossentropy", "softmax"},
           {"categorical_focal_crossentropy", "softmax"},
           {"binary_focal_crossentropy", "sigmoid"},
           {"binary_crossentropy", "sigmoid"}}) {
    const std::vector<std::string> want = {"loss " + loss + ": " + logits + "\"" + wanted + "\""};
    CHECK(Doubts({Last("linear")}, {loss}) == want);
    CHECK(Doubts({LayerJson("Dense", {{"name", "d"}, {"units", 3}})}, {loss}) == want);
    for (const char* after : {"Flatten", "Dropout", "GlobalAveragePooling1D"}) {
      const json layer = LayerJson(after, {{"name", "after"}, {"rate", 0.5}});
      CHECK(Doubts({Last("linear"), layer}, {loss}) == want);
    }
    const json within =
        LayerJson("TimeDistributed",
                  {{"name", "t"}, {"layer", LayerJson("Dense", {{"name", "d"}, {"units", 3}})}});
    REQUIRE(Doubts({within}, {loss}).size() == 1);
    CHECK(absl::StrContains(Doubts({within}, {loss})[0], "layer \"t\" (TimeDistributed)"));

    CHECK(Doubts({Last("linear")}, {loss, {{"from_logits", true}}}).empty());
    CHECK(Doubts({Last("softmax")}, {loss}).empty());
    CHECK(Doubts({Last("sigmoid")}, {loss}).empty());
    CHECK(Doubts({Last("linear"), LayerJson("Softmax", {{"name", "s"}})}, {loss}).empty());
    CHECK(Doubts({Last("linear"), LayerJson("Activation", {{"activation", "sigmoid"}})}, {loss})
              .empty());
    CHECK(Doubts({LayerJson("LSTM", {{"name", "l"}, {"units", 3}})}, {loss}).empty());
    REQUIRE(Doubts({Last("relu")}, {loss}).size() == 1);
    CHECK(absl::StrContains(Doubts({Last("relu")}, {loss})[0],
                            "has the activation \"relu\": give the model a last activation"));
  }
  CHECK(Doubts({Last("linear")}, {"kl_divergence"}).size() == 1);
  CHECK(Doubts({Last("linear")}, {"mean_squared_error"}).empty());
  CHECK(Doubts({Last("linear")}, {"hinge"}).empty());
}

TEST_CASE("probabilities given to a loss of logits, and a choice among one, are doubted") {
  const NamedSpec logits{"sparse_categorical_crossentropy", {{"from_logits", true}}};
  CHECK(Doubts({Last("softmax")}, logits) ==
        std::vector<std::string>{"loss sparse_categorical_crossentropy: is told \"from_logits\": "
                                 "true, but layer \"d\" (Dense) has the activation \"softmax\": "
                                 "leave out one of the two"});
  REQUIRE(Doubts({Last("softmax", 1)}, {"binary_crossentropy"}).size() == 1);
  CHECK(absl::StrContains(Doubts({Last("softmax", 1)}, {"binary_crossentropy"})[0],
                          "has a softmax of one unit, which is 1 whatever it is given"));
  const json softmax = LayerJson("Activation", {{"name", "a"}, {"activation", "softmax"}});
  CHECK(Doubts({Last("linear", 1), softmax}, {"binary_crossentropy"}).size() == 1);
  CHECK(Doubts({Last("linear", 2), softmax}, {"binary_crossentropy"}).empty());
  REQUIRE(Doubts({Last("sigmoid", 1)}, {"categorical_crossentropy"}).size() == 1);
  CHECK(absl::StrContains(Doubts({Last("sigmoid", 1)}, {"categorical_crossentropy"})[0],
                          "is always 0: use binary_crossentropy"));
}

TEST_CASE("a metric that compares logits with a probability is doubted") {
  const NamedSpec loss{"binary_crossentropy", {{"from_logits", true}}};
  const auto doubts = [&](const NamedSpec& metric, const char* activation = "linear") {
    return Doubts({Last(activation, 1)}, loss, {metric});
  };
  CHECK(
      doubts({"accuracy"}) ==
      std::vector<std::string>{
          "metric accuracy: compares with 0.5, but layer \"d\" (Dense) has no activation, so "
          "that its outputs are logits: write {\"name\": \"binary_accuracy\", \"threshold\": 0}"});
  CHECK(doubts({"binary_accuracy", {{"threshold", 0}}}).empty());
  REQUIRE(doubts({"precision"}).size() == 1);
  CHECK(
      absl::StrContains(doubts({"precision"})[0], "{\"name\": \"precision\", \"thresholds\": 0}"));
  CHECK(doubts({"recall", {{"thresholds", 0}}}).empty());
  CHECK(doubts({"auc"}).size() == 1);
  CHECK(doubts({"auc", {{"from_logits", true}}}).empty());
  CHECK(doubts({"mean_squared_error"}).empty());
}

TEST_CASE("each output is doubted for its own loss") {
  const json none = json::array();
  const json model = {{"class_name", "Functional"},
                      {"config",
                       {{"layers",
                         {Named("InputLayer", "in", {{"batch_shape", {nullptr, 2}}}, none),
                          Named("Dense", "a", {{"units", 2}}, {Call("in")}),
                          Named("Dense", "b", {{"units", 2}}, {Call("in")})}},
                        {"input_layers", {{"in", 0, 0}}},
                        {"output_layers", {{"a", 0, 0}, {"b", 0, 0}}}}}};
  Job job = JobFor(model, "");
  job.losses = {{"mean_squared_error", json::object(), "a"},
                {"binary_crossentropy", json::object(), "#1"}};
  const auto doubts = OutputDoubts(job, ReadKerasModel(job.model).value());
  REQUIRE(doubts.size() == 1);
  CHECK(absl::StartsWith(doubts[0], "output \"b\": loss binary_crossentropy: takes probabilities"));
}

TEST_CASE("a label that a crossentropy takes for a probability and is none is doubted") {
  const auto doubt = [](const std::string& loss, std::vector<float> labels) {
    const Batch schema = SchemaOf({2}, {1});
    const auto program =
        BuildKerasProgram(JobFor(SequentialJson({Last("sigmoid", 1)}), loss), schema, TestOps());
    INFO(program.status().ToString());
    REQUIRE(program.ok());
    Batch batch = schema;
    batch.examples = static_cast<uint32_t>(labels.size());
    batch.inputs[0].values.assign(2 * labels.size(), 0.f);
    batch.targets[0].values = std::move(labels);
    return (*program)->Doubt(batch);
  };
  CHECK(doubt("binary_focal_crossentropy", {0, 1, 0.5}).empty());
  CHECK(doubt("binary_crossentropy", {0, 1, 2}).empty());  // which is refused
  CHECK(absl::StartsWith(doubt("binary_focal_crossentropy", {0, 1, 2}),
                         "example 2 of the batch: label 2 is outside of 0 to 1"));
  CHECK(absl::StartsWith(doubt("binary_focal_crossentropy", {-1, 1}), "example 0 of the batch"));
  CHECK(doubt("hinge", {-1, 1}).empty());
  CHECK(doubt("mean_squared_error", {7}).empty());
}

}  // namespace
}  // namespace paracord
