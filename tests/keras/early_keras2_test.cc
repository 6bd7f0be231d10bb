// Tests model files of Keras 2.0 and 2.1.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "keras/build.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns a Sequential as model.to_json() of Keras 2.0 and 2.1 writes it: the config is the list of
// layers.
json ListSequential(std::vector<json> layers, const std::string& version = "") {
  json model = {{"class_name", "Sequential"}, {"config", std::move(layers)}};
  if (!version.empty()) {
    model["keras_version"] = version;
    model["backend"] = "tensorflow";
  }
  return model;
}

std::map<std::string, std::vector<uint64_t>> ShapesOf(const json& model, const Batch& schema) {
  const auto program = BuildKerasProgram(JobFor(model, "mse"), schema, TestOps());
  INFO(program.status().ToString());
  REQUIRE(program.ok());
  std::map<std::string, std::vector<uint64_t>> shapes;
  for (const VariableSpec& variable : (*program)->variables()) {
    shapes[variable.name()].assign(variable.shape().begin(), variable.shape().end());
  }
  return shapes;
}

TEST_CASE("a Sequential whose config is the list of its layers is read, inside of others too") {
  const json d1 =
      LayerJson("Dense", {{"name", "d1"}, {"units", 4}, {"batch_input_shape", {nullptr, 3, 2}}});
  const json inner = ListSequential({LayerJson("Dense", {{"name", "a"}, {"units", 5}})});
  const json steps = LayerJson("TimeDistributed", {{"name", "t"}, {"layer", inner}});
  const json model = ListSequential({d1, inner, steps}, "2.1.6");
  using Shapes = std::map<std::string, std::vector<uint64_t>>;
  CHECK(ShapesOf(model, SchemaOf({3, 2}, {3, 5})) == Shapes{{"d1/kernel", {2, 4}},
                                                            {"d1/bias", {4}},
                                                            {"sequential/a/kernel", {4, 5}},
                                                            {"sequential/a/bias", {5}},
                                                            {"t/a/kernel", {5, 5}},
                                                            {"t/a/bias", {5}}});
}

TEST_CASE("a GRU of these versions resets before its product, of later ones after it") {
  const json gru =
      LayerJson("GRU", {{"name", "g"}, {"units", 2}, {"batch_input_shape", {nullptr, 3, 4}}});
  const json wrapped = LayerJson(
      "Bidirectional", {{"name", "b"}, {"layer", gru}, {"batch_input_shape", {nullptr, 3, 4}}});
  const Batch schema = SchemaOf({3, 4}, {2});
  for (const char* version : {"2.0.8", "2.1.6"}) {
    CHECK(ShapesOf(ListSequential({gru}, version), schema)["g/gru_cell/bias"] ==
          std::vector<uint64_t>{6});
    for (const auto& [name, shape] :
         ShapesOf(ListSequential({wrapped}, version), SchemaOf({3, 4}, {4}))) {
      if (name.ends_with("bias")) CHECK(shape == std::vector<uint64_t>{6});
    }
  }
  CHECK(ShapesOf(ListSequential({gru}, "2.4.0"), schema)["g/gru_cell/bias"] ==
        std::vector<uint64_t>{2, 6});
}

TEST_CASE("only a Sequential may have a list as its config") {
  const json layer = LayerJson("Dense", {{"name", "d1"}, {"units", 4}});
  json model = ListSequential({layer}, "2.1.6");
  model["class_name"] = "Model";
  const absl::Status built =
      BuildKerasProgram(JobFor(model, "mse"), SchemaOf({2}, {4}), TestOps()).status();
  CHECK(built.message() == "model: has no config object");
}

}  // namespace
}  // namespace paracord
