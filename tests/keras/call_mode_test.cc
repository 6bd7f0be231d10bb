// Tests the `training` argument in the calls of a Keras 2 model.
#include <string>
#include <utility>
#include <vector>

#include "keras/build.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns a Keras 2 layer that is called with the first output of each layer in `calls`.
json Layer2(const std::string& class_name, const std::string& name, json config,
            std::vector<std::pair<std::string, json>> calls) {
  config["name"] = name;
  json layer = {{"class_name", class_name}, {"name", name}, {"config", std::move(config)}};
  layer["inbound_nodes"] = json::array();
  for (const auto& [of, kwargs] : calls) {
    layer["inbound_nodes"].push_back(json::array({json::array({of, 0, 0, kwargs})}));
  }
  return layer;
}

json Model2(std::vector<json> layers, int call = 0) {
  const std::string last = layers.back()["name"];
  layers.insert(layers.begin(),
                Layer2("InputLayer", "in", {{"batch_input_shape", {nullptr, 4}}}, {}));
  return {{"class_name", "Functional"},
          {"keras_version", "2.15.0"},
          {"config",
           {{"name", "m"},
            {"layers", std::move(layers)},
            {"input_layers", json::array({json::array({"in", 0, 0})})},
            {"output_layers", json::array({json::array({last, call, 0})})}}}};
}

std::string Refused(const json& model) {
  return std::string(
      BuildKerasProgram(JobFor(model, "mse"), SchemaOf({4}, {4}), TestOps()).status().message());
}

TEST_CASE("a Dropout of Keras 2 that is called with training=True drops at inference, too") {
  for (const bool training : {true, false}) {
    const json kwargs = {{"training", training}};
    const json model = Model2({Layer2("Dropout", "drop", {{"rate", 0.5}}, {{"in", kwargs}})});
    Batch batch = SchemaOf({4}, {4});
    batch = RandomBatch(batch, 50, 0, 3);
    auto built = BuildKerasProgram(JobFor(model, "mse", 50), SchemaOf({4}, {4}), TestOps());
    INFO(built.status());
    REQUIRE(built.ok());
    const auto outputs = (*built)->Predict(batch, {});
    REQUIRE(outputs.ok());
    const std::vector<float>& x = batch.inputs[0].values;
    size_t dropped = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const float y = (*outputs)[0].values[i];
      if (y == 0) ++dropped;
      if (y != 0) CHECK(y == (training ? 2 * x[i] : x[i]));
    }
    CHECK((dropped > 50 && dropped < 150) == training);
    CHECK((training || dropped == 0));
  }
}

TEST_CASE("the mode of a call must be one, and the same for all calls of a BatchNormalization") {
  const json on = {{"training", true}}, off = {{"training", false}}, none = json::object();
  const auto norm = [&](const json& first, const json& second) {
    return Refused(Model2(
        {Layer2("BatchNormalization", "n", json::object(), {{"in", first}, {"in", second}})}, 1));
  };
  CHECK(norm(off, off) == "");
  CHECK(norm(none, none) == "");
  CHECK(norm({{"training", 0}}, off) == "");
  const std::string other =
      "layer \"n\" (BatchNormalization): is called with other arguments than before";
  CHECK(norm(off, none).find(other) != std::string::npos);
  CHECK(norm(on, off).find(other) != std::string::npos);
  const json dense = Layer2("Dense", "d", {{"units", 4}}, {{"in", off}, {"in", none}});
  CHECK(Refused(Model2({dense}, 1)) == "");
  for (const json& bad : {json::array({"in", 0, 0}), json("yes")}) {
    const std::string message = norm({{"training", bad}}, none);
    INFO(message);
    CHECK(message.find("layer \"n\" (BatchNormalization)") != std::string::npos);
    CHECK(message.find("training must be true, false or null") != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
