// Merge layers ignore masked numbers, even a NaN.
#include <limits>
#include <vector>

#include "keras/build.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

// A merge of two embeddings, with id 0 masked.
json Model(const std::string& merge) {
  json both = Call("e");
  both["args"] = json::array({json::array({Call("e")["args"][0], Call("f")["args"][0]})});
  const json table = {{"input_dim", 3}, {"output_dim", 2}, {"mask_zero", true}};
  return {{"class_name", "Functional"},
          {"config",
           {{"name", "m"},
            {"layers",
             {Named("InputLayer", "a", {{"batch_shape", {nullptr, 2}}}, json::array()),
              Named("InputLayer", "b", {{"batch_shape", {nullptr, 2}}}, json::array()),
              Named("Embedding", "e", table, {Call("a")}),
              Named("Embedding", "f", table, {Call("b")}), Named(merge, "merge", {}, {both})}},
            {"input_layers", {{"a", 0, 0}, {"b", 0, 0}}},
            {"output_layers", {{"merge", 0, 0}}}}}};
}

TEST_CASE("masked inputs of a Multiply, Maximum or Minimum have no effect, even if they are NaN") {
  const float hidden[] = {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};
  for (const char* merge : {"Multiply", "Maximum", "Minimum"}) {
    for (const float value : hidden) {
      INFO(merge << " of " << value);
      Batch batch;
      batch.examples = 1;
      batch.inputs = {{"a", {2}, {0, 1}}, {"b", {2}, {2, 0}}};
      batch.targets = {{"", {2, 2}, {0, 0, 0, 0}}};
      auto built = BuildKerasProgram(JobFor(Model(merge), "mse", 1), batch, TestOps());
      INFO(built.status());
      REQUIRE(built.ok());
      Variables variables(**built);
      variables.values = {{value, value, 3, -4, 0, 0}, {value, value, 0, 0, 5, -6}};
      variables.Bind();
      const auto outputs = (*built)->Predict(batch, variables.value_spans());
      REQUIRE(outputs.ok());
      CHECK((*outputs)[0].values == std::vector<float>{5, -6, 3, -4});
      const auto loss =
          (*built)->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans());
      REQUIRE(loss.ok());
      // 2 x / 4 over the unmasked numbers.
      CHECK_THAT(variables.gradients[0],
                 Catch::Matchers::Approx(std::vector<float>{0, 0, 1.5f, -2, 0, 0}));
      CHECK_THAT(variables.gradients[1],
                 Catch::Matchers::Approx(std::vector<float>{0, 0, 0, 0, 2.5f, -3}));
    }
  }
}

TEST_CASE("a mask that is not of an input's steps is refused by whoever would read it") {
  const json softmax = LayerJson("Softmax", {{"axis", -1}});
  struct Masked {
    std::string layer;
    json config;
    std::vector<uint64_t> mask;
    bool by_name = true;  // otherwise a Softmax is given the mask, which is propagated
  };
  for (const auto& [layer, config, mask, by_name] :
       std::vector<Masked>{{"GlobalAveragePooling1D", json::object(), {1}},
                           {"GlobalAveragePooling1D", json::object(), {3}},
                           {"GlobalAveragePooling1D", json::object(), {5, 2}},
                           {"GlobalAveragePooling1D", json::object(), {1, 2}, false},
                           {"Softmax", json::object(), {1}},
                           {"Softmax", json::object(), {2}},
                           {"Concatenate", {{"axis", 1}}, {1, 2}, false},
                           {"TimeDistributed", {{"layer", softmax}}, {1, 2}},
                           {"TimeDistributed", {{"layer", softmax}}, {7, 2}}}) {
    CAPTURE(layer, mask);
    const auto input = [](const char* name, const std::vector<uint64_t>& shape) {
      json dims = shape;
      dims.insert(dims.begin(), nullptr);
      return Named("InputLayer", name, {{"batch_shape", dims}}, json::array());
    };
    json before = Call("x"), last = Call("before");
    (by_name ? last : before)["kwargs"]["mask"] = Call("mask")["args"][0];
    if (layer == "Concatenate") {
      last["args"] = json::array({json::array({last["args"][0], Call("x")["args"][0]})});
    }
    const json model = {
        {"class_name", "Functional"},
        {"config",
         {{"name", "m"},
          {"layers",
           {input("x", {5, 2}), input("mask", mask), Named("Softmax", "before", {}, {before}),
            Named(layer, "last", config, {last})}},
          {"input_layers", {{"x", 0, 0}, {"mask", 0, 0}}},
          {"output_layers", {{"last", 0, 0}}}}}};
    Batch schema = SchemaOf({5, 2}, {2});
    schema.inputs[0].name = "x";
    schema.inputs.push_back({"mask", mask, {}});
    const absl::Status status = BuildKerasProgram(JobFor(model, "mse"), schema, TestOps()).status();
    INFO(status);
    CHECK(std::string(status.message()).find("layer \"last\" (" + layer + "): a mask of ") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
