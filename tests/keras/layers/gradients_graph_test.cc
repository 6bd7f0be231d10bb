// Gradients against central differences for layers with several inputs, ids and masks, and for
// every loss, over random shapes from a seed.
#include <catch2/catch.hpp>
#include <random>

#include "gradient_check.h"
#include "keras/build.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

// A tensor of a Functional model in the format of Keras 3.
json Tensor(const std::string& layer, int output = 0) {
  return {{"class_name", "__keras_tensor__"}, {"config", {{"keras_history", {layer, 0, output}}}}};
}

// Layers by name, each with the arguments of one call. Inputs have none.
class FunctionalJson {
 public:
  void Input(const std::string& name) {
    Add("InputLayer", name, json::object(), json::array(), json::object());
    inputs_.push_back({name, 0, 0});
  }
  void Add(const std::string& class_name, const std::string& name, json config,
           std::vector<json> args, json kwargs = json::object()) {
    config["name"] = name;
    json layer = LayerJson(class_name, std::move(config));
    layer["name"] = name;
    layer["inbound_nodes"] = json::array();
    if (!args.empty()) {
      layer["inbound_nodes"].push_back({{"args", std::move(args)}, {"kwargs", std::move(kwargs)}});
    }
    layers_.push_back(std::move(layer));
  }
  void Operation(const std::string& class_name, const std::string& name, std::vector<json> args,
                 json config = json::object()) {
    Add(class_name, name, std::move(config), std::move(args));
    layers_.back()["module"] = "keras.src.ops.numpy";
  }
  json Model(const std::string& output) const {
    return {{"class_name", "Functional"},
            {"config",
             {{"name", "m"},
              {"layers", layers_},
              {"input_layers", inputs_},
              {"output_layers", {{output, 0, 0}}}}}};
  }

 private:
  json layers_ = json::array(), inputs_ = json::array();
};

Batch Schema(std::vector<std::pair<std::string, std::vector<uint64_t>>> inputs,
             std::vector<uint64_t> target) {
  Batch schema = SchemaOf({}, std::move(target));
  schema.inputs.clear();
  for (auto& [name, shape] : inputs) schema.inputs.push_back({name, std::move(shape), {}});
  return schema;
}

struct Draw {
  explicit Draw(uint32_t seed) : random(seed) {}
  uint64_t operator()(uint64_t low, uint64_t high) { return low + random() % (high - low + 1); }
  std::mt19937 random;
};

TEST_CASE("gradients of merges agree with differences, broadcast or not") {
  for (const char* merge :
       {"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot"}) {
    for (uint32_t seed = 1; seed < 5; ++seed) {
      Draw draw(seed);
      const std::string name = merge;
      const uint64_t steps = draw(2, 4), width = draw(2, 4);
      const bool broadcast = seed % 2 == 0 && name != "Concatenate" && name != "Dot";
      FunctionalJson model;
      model.Input("a");
      model.Input("b");
      model.Add("Dense", "p", {{"units", width}, {"activation", "tanh"}}, {Tensor("a")});
      model.Add("Dense", "q", {{"units", broadcast ? 1 : width}}, {Tensor("b")});
      const json config = name == "Dot" ? json{{"axes", 2}} : json::object();
      model.Add(name, "merge", config, {json::array({Tensor("p"), Tensor("q")})});
      model.Add("Flatten", "f", json::object(), {Tensor("merge")});
      model.Add("Dense", "last", {{"units", 2}}, {Tensor("f")});
      CheckGradients(model.Model("last"), "mse",
                     Schema({{"a", {steps, draw(1, 3)}}, {"b", {steps, draw(1, 3)}}}, {2}), 0,
                     seed);
    }
  }
}

// An array argument of a call in the format of Keras 3.
json Array(json values) {
  return {{"class_name", "__numpy__"},
          {"config", {{"value", std::move(values)}, {"dtype", "float32"}}}};
}

FunctionalJson WithArray(const std::string& operation, json array, bool first) {
  FunctionalJson model;
  model.Input("a");
  model.Add("Dense", "p", {{"units", 3}, {"activation", "sigmoid"}}, {Tensor("a")});
  json args = json::array({Tensor("p"), std::move(array)});
  if (first) std::swap(args[0], args[1]);
  model.Operation(operation, "op", args);
  return model;
}

TEST_CASE("operators with an array of numbers on either side, and their gradients") {
  const std::vector<float> kernel(6, 0), bias = {-1, 0, 1};
  const float p[] = {0.26894142f, 0.5f, 0.73105858f};
  for (const char* name : {"Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum"}) {
    for (const bool first : {false, true}) {
      for (const json& values : {json{2, 4, 0.25}, json{{2, 4, 0.25}}, json{{{2, 4, 0.25}}},
                                 json{{2}, {0.25}}, json{{2, 4, 0.25}, {1, 0.5, 8}}}) {
        const std::string operation = name;
        CAPTURE(operation, first, values);
        FunctionalJson model = WithArray(name, Array(values), first);
        const Batch schema = Schema({{"a", {2, 2}}}, {2, 3});
        const auto program =
            BuildKerasProgram(JobFor(model.Model("op"), "mse", 2), schema, TestOps());
        INFO(program.status());
        REQUIRE(program.ok());
        const std::vector<std::span<const float>> parameters = {kernel, bias};
        const auto columns = (*program)->Predict(RandomBatch(schema, 2, 0, 1), parameters);
        REQUIRE(columns.ok());
        REQUIRE(columns->at(0).values.size() == 12);
        for (size_t i = 0; i < 12; ++i) {
          const json* array = &values;
          while (array->size() == 1) array = &(*array)[0];
          if ((*array)[0].is_array()) array = &(*array)[i / 3 % 2];
          const float c = (*array)[array->size() == 1 ? 0 : i % 3].get<float>();
          const float x = first ? c : p[i % 3], y = first ? p[i % 3] : c;
          const float expected = operation == "Add"        ? x + y
                                 : operation == "Subtract" ? x - y
                                 : operation == "Multiply" ? x * y
                                 : operation == "Divide"   ? x / y
                                 : operation == "Maximum"  ? std::max(x, y)
                                                           : std::min(x, y);
          CHECK(columns->at(0).values[i] == Approx(expected));
        }
        model.Add("Dense", "last", {{"units", 2}}, {Tensor("op")});
        CheckGradients(model.Model("last"), "mse", Schema({{"a", {2, 2}}}, {2, 2}), 0, 1);
      }
    }
  }
}

TEST_CASE("an array of numbers that a call cannot take is refused, never left out") {
  const auto status = [](const FunctionalJson& model, const char* output) {
    return std::string(BuildKerasProgram(JobFor(model.Model(output), "mse", 2),
                                         Schema({{"a", {2, 2}}}, {2, 3}), TestOps())
                           .status()
                           .message());
  };
  const json one = Array({2, 4, 0.25});
  for (const auto& [operation, array] :
       std::vector<std::pair<std::string, json>>{{"Add", Array({{2, 4, 0.25}, {1, 2}})},
                                                 {"Add", Array({"x"})},
                                                 {"Add", json()},
                                                 {"Add", Array({2, 4})},
                                                 {"Add", Array({{{1, 1, 1}}, {{1, 1, 1}}})},
                                                 {"Power", one},
                                                 {"Matmul", Array({2, 4})},
                                                 {"Matmul", Array({{{1, 1}}, {{1, 1}}})},
                                                 {"Stack", one},
                                                 {"Concatenate", one}}) {
    CAPTURE(operation, array);
    CHECK(status(WithArray(operation, array, false), "op").find("\"op\"") != std::string::npos);
  }
  const json row = Array({{2, 4, 0.25}}), rows = Array({{1, 1, 1}, {1, 1, 1}});
  const json mha = {{"num_heads", 1}, {"key_dim", 2}}, gru = {{"units", 3}};
  const json x = Tensor("op");
  for (const auto& [layer, config, args, kwargs] :
       std::vector<std::tuple<std::string, json, json, json>>{
           {"Add", json::object(), json::array({json::array({x, one})}), json::object()},
           {"Add", json::object(), json::array({json::array({x, rows})}), json::object()},
           {"Concatenate", json::object(), json::array({json::array({x, row})}), json::object()},
           {"Dot", {{"axes", 2}}, json::array({json::array({x, row})}), json::object()},
           {"Embedding", {{"input_dim", 5}, {"output_dim", 3}}, json::array({row}), json::object()},
           {"Dense", {{"units", 3}}, json::array({row}), json::object()},
           {"MultiHeadAttention", mha, {x, row}, json::object()},
           {"MultiHeadAttention", mha, {x, x}, {{"attention_mask", one}}},
           {"MultiHeadAttention", mha, {x, x}, {{"value_mask", rows}}},
           {"GRU", gru, json::array({x}), {{"initial_state", rows}}},
           {"GRU", gru, json::array({x}), {{"initial_state", {row, row}}}},
           {"GRU", gru, json::array({x}), {{"mask", rows}}}}) {
    FunctionalJson model = WithArray("Add", one, false);
    model.Add(layer, "last", config, args, kwargs);
    const std::string what = status(model, "last");
    CAPTURE(what);
    CHECK(what.find("layer \"last\" (" + layer + ")") != std::string::npos);
    CHECK(what.find("inbound_nodes") == std::string::npos);
  }
}

TEST_CASE("an argument of a call that its layer does not take is refused, never ignored") {
  const json x = Tensor("p");
  const json mha = {{"num_heads", 1}, {"key_dim", 2}}, gru = {{"units", 3}};
  struct Call {
    std::string layer;
    json config, args, kwargs;
    std::string named;
  };
  for (const auto& [layer, config, args, kwargs, named] : std::vector<Call>{
           {"Dense", {{"units", 3}}, json::array({x}), {{"mask", x}}, "\"mask\""},
           {"Dense", {{"units", 3}}, json::array({x}), {{"scale", 2}}, "\"scale\""},
           {"Dense", {{"units", 3}}, json::array({x}), {{"scale", false}}, "\"scale\""},
           {"Dense", {{"units", 3}}, json::array({x}), {{"scale", {1, 2}}}, "\"scale\""},
           {"Dense", {{"units", 3}}, {x, 2.0}, json::object(), "2.0"},
           {"Dense", {{"units", 3}}, {x, x}, json::object(), "2 tensors"},
           {"LayerNormalization", {{"axis", 1}}, json::array({x}), {{"scale", 2}}, "\"scale\""},
           {"Activation",
            {{"activation", "relu"}},
            json::array({x}),
            {{"alpha", 0.5}},
            "\"alpha\""},
           {"Add",
            json::object(),
            json::array({json::array({x, x})}),
            {{"mask", {x, x}}},
            "\"mask\""},
           {"GRU", gru, json::array({x}), {{"attention_mask", x}}, "\"attention_mask\""},
           {"GRU", gru, json::array({x}), {{"constants", {x}}}, "\"constants\""},
           {"GRU", gru, {x, nullptr, x}, json::object(), "by its name"},
           {"GRU", gru, json::array({x}), {{"initial_state", {x, x}}}, "3 tensors"},
           {"MultiHeadAttention", mha, {x, x}, {{"mask", x}}, "\"mask\""},
           {"MultiHeadAttention", mha, {x, x}, {{"use_causal_mask", 1}}, "\"use_causal_mask\""},
           {"MultiHeadAttention", mha, {x, x}, {{"causal", true}}, "\"causal\""},
           {"MultiHeadAttention", mha, {x, x}, {{"key_mask", x}}, "\"key_mask\""},
           {"GRU", gru, json::array({x}), {{"mask", {x, x}}}, "\"mask\""},
           {"TimeDistributed",
            {{"layer", {{"class_name", "Dense"}, {"config", {{"units", 2}}}}}},
            json::array({x}),
            {{"scale", 2}},
            "\"scale\""}}) {
    FunctionalJson model;
    model.Input("a");
    model.Add("Dense", "p", {{"units", 3}}, {Tensor("a")});
    model.Add(layer, "last", config, args, kwargs);
    const std::string what(BuildKerasProgram(JobFor(model.Model("last"), "mse", 2),
                                             Schema({{"a", {2, 2}}}, {2, 3}), TestOps())
                               .status()
                               .message());
    CAPTURE(what, layer);
    CHECK(what.find("layer \"last\" (" + layer + ")") != std::string::npos);
    CHECK(what.find(named) != std::string::npos);
  }
}

TEST_CASE("an argument of a call that no inner model takes is refused") {
  FunctionalJson within;
  within.Input("i");
  within.Add("Dense", "d", {{"units", 3}}, {Tensor("i")});
  for (const auto& [kwargs, named] : std::vector<std::pair<json, std::string>>{
           {{{"scale", 2}}, "\"scale\""},
           {{{"scale", Tensor("a")}}, "\"scale\""},
           {{{"mask", {nullptr, Tensor("a")}}}, "\"mask/1\""}}) {
    FunctionalJson model;
    model.Input("a");
    model.Add("Functional", "last", within.Model("d")["config"], {Tensor("a")}, kwargs);
    const std::string what(BuildKerasProgram(JobFor(model.Model("last"), "mse", 2),
                                             Schema({{"a", {2, 2}}}, {2, 3}), TestOps())
                               .status()
                               .message());
    CAPTURE(what);
    CHECK(what.find("layer \"last\" (Functional): key " + named) != std::string::npos);
  }
}

TEST_CASE("gradients beside constants agree with differences") {
  const json row = Array({{2, 0.5, -0.25}}), state = Array({{0.5, -0.5}});
  const json x = Tensor("p");
  const json gru = {{"units", 2}}, mha = {{"num_heads", 1}, {"key_dim", 2}};
  for (const auto& [layer, config, args, kwargs] :
       std::vector<std::tuple<std::string, json, json, json>>{
           {"Multiply", json::object(), json::array({json::array({x, row, x})}), json::object()},
           {"Average", json::object(), json::array({json::array({row, x})}), json::object()},
           {"Attention", json::object(), {{x, Array({{{1, 0.5, 0}, {0, 1, -1}}})}}, json::object()},
           {"GRU", gru, json::array({x}), {{"initial_state", state}}},
           {"LSTM", gru, json::array({x}), {{"initial_state", {state, state}}}},
           {"MultiHeadAttention", mha, {x, x}, {{"attention_mask", Array({{1, 0}, {1, 1}})}}}}) {
    CAPTURE(layer);
    FunctionalJson model;
    model.Input("a");
    model.Add("Dense", "p", {{"units", 3}, {"activation", "tanh"}}, {Tensor("a")});
    model.Add(layer, "op", config, args, kwargs);
    model.Add("Flatten", "f", json::object(), {Tensor("op")});
    model.Add("Dense", "last", {{"units", 2}}, {Tensor("f")});
    CheckGradients(model.Model("last"), "mse", Schema({{"a", {2, 2}}}, {2}), 0, 1);
  }
  for (const bool first : {false, true}) {
    FunctionalJson model =
        WithArray("Matmul", first ? Array({{1, 2}, {0.5, -1}}) : Array({{1}, {0.5}, {-2}}), first);
    model.Add("Dense", "last", {{"units", 2}}, {Tensor("op")});
    CheckGradients(model.Model("last"), "mse", Schema({{"a", {2, 2}}}, {2, 2}), 0, 1);
  }
}

// Matrices are multiplied pairwise by einsum, or all by one array.
TEST_CASE("matrices in more axes are multiplied one by one, or all by the same array") {
  for (const bool array : {false, true}) {
    const auto model = [&](bool other_way) {
      FunctionalJson made;
      for (const char* name : {"a", "b"}) made.Input(name);
      made.Add("Dense", "p", {{"units", 3}}, {Tensor("a")});
      made.Add("Dense", "q", {{"units", 5}}, {Tensor("b")});
      const json matrix = Array({{1, 0.5, 2, 0, 1}, {-1, 2, 0, 3, 1}, {0.25, 0, 1, 1, -2}});
      if (!other_way) {
        made.Operation("Matmul", "op", {Tensor("p"), array ? matrix : Tensor("q")});
      } else if (array) {
        made.Add("Reshape", "rows", {{"target_shape", {8, 3}}}, {Tensor("p")});
        made.Operation("Matmul", "product", {Tensor("rows"), matrix});
        made.Add("Reshape", "op", {{"target_shape", {2, 4, 5}}}, {Tensor("product")});
      } else {
        made.Operation("Einsum", "op", {Tensor("p"), Tensor("q")},
                       {{"subscripts", "bhij,bhjk->bhik"}});
      }
      made.Add("Concatenate", "both", {{"axis", 2}}, {json::array({Tensor("op"), Tensor("q")})});
      made.Add("Dense", "last", {{"units", 2}}, {Tensor("both")});
      return made.Model("last");
    };
    const Batch schema = Schema({{"a", {2, 4, 2}}, {"b", {2, 3, 2}}}, {2, 7, 2});
    std::vector<float> outputs[2];
    for (const bool other_way : {false, true}) {
      auto program = BuildKerasProgram(JobFor(model(other_way), "mse"), schema, TestOps());
      INFO(program.status());
      REQUIRE(program.ok());
      Variables variables(**program);
      variables.Randomise(1);
      const auto out = (*program)->Predict(RandomBatch(schema, 3, 0, 1), variables.value_spans());
      REQUIRE(out.ok());
      outputs[other_way] = out->at(0).values;
    }
    REQUIRE(outputs[0].size() == 84);
    for (size_t i = 0; i < 84; ++i) CHECK(outputs[0][i] == Approx(outputs[1][i]).margin(1e-5));
    CheckGradients(model(false), "mse", schema, 0, 1);
  }
}

// The condition depends on numbers that have a gradient through other layers.
TEST_CASE("no gradient goes through the condition of a choice") {
  FunctionalJson model;
  model.Input("a");
  for (const char* name : {"condition", "yes", "no"}) {
    model.Add("Dense", name, {{"units", 3}}, {Tensor("a")});
  }
  model.Operation("Where", "op", {Tensor("condition"), Tensor("yes"), Tensor("no")});
  for (const auto& [name, of] : {std::pair("b", "op"), std::pair("last", "b")}) {
    model.Add("Dense", name, {{"units", 3}}, {Tensor(of)});
  }
  CheckGradients(model.Model("last"), "mse", Schema({{"a", {2}}}, {3}), 0, 1);
}

TEST_CASE("gradients of attention agree with differences, with masks, dropout and scores") {
  for (uint32_t seed = 0; seed < 16; ++seed) {
    Draw draw(seed);
    const uint64_t queries = draw(1, 5), keys = draw(1, 5);
    FunctionalJson model;
    for (const char* name : {"a", "b", "mask"}) model.Input(name);
    model.Add("Dense", "q", {{"units", draw(1, 4)}}, {Tensor("a")});
    model.Add("Dense", "v", {{"units", draw(1, 4)}}, {Tensor("b")});
    json args = {Tensor("q"), Tensor("v")}, kwargs = json::object();
    if (draw(0, 1) == 1) args.push_back(Tensor("b"));
    if (draw(0, 1) == 1) kwargs["use_causal_mask"] = true;
    if (draw(0, 1) == 1) kwargs["return_attention_scores"] = true;
    kwargs["attention_mask"] = Tensor("mask");
    model.Add("MultiHeadAttention", "mha",
              {{"num_heads", draw(1, 3)},
               {"key_dim", draw(1, 3)},
               {"value_dim", draw(1, 3)},
               {"use_bias", draw(0, 1) == 1},
               {"dropout", draw(0, 1) == 1 ? 0.3 : 0.0}},
              args, kwargs);
    model.Add("Flatten", "f", json::object(), {Tensor("mha")});
    std::string end = "f";
    if (kwargs.contains("return_attention_scores")) {
      model.Add("Flatten", "g", json::object(), {Tensor("mha", 1)});
      model.Add("Concatenate", "cat", json::object(), {json::array({Tensor("f"), Tensor("g")})});
      end = "cat";
    }
    model.Add("Dense", "last", {{"units", 2}}, {Tensor(end)});
    Batch schema = Schema(
        {{"a", {queries, draw(1, 3)}}, {"b", {keys, draw(1, 3)}}, {"mask", {queries, keys}}}, {2});
    CheckGradients(model.Model("last"), "mse", schema, 0, seed, [](Batch& batch) {
      for (float& x : batch.inputs[2].values) x = x > -0.3f ? 1.f : 0.f;
    });
  }
}

TEST_CASE("gradients of recurrent layers over masked ids agree with differences") {
  for (const char* layer : {"SimpleRNN", "LSTM", "GRU", "Bidirectional"}) {
    for (uint32_t seed = 1; seed < 7; ++seed) {
      Draw draw(seed);
      json config = {{"units", draw(1, 4)},
                     {"return_sequences", draw(0, 1) == 1},
                     {"go_backwards", draw(0, 1) == 1},
                     {"use_bias", draw(0, 1) == 1},
                     {"zero_output_for_mask", draw(0, 1) == 1}};
      std::string name = layer;
      if (name == "GRU") config["reset_after"] = draw(0, 1) == 1;
      if (name != "SimpleRNN" && draw(0, 1) == 1) config["recurrent_activation"] = "softsign";
      if (name == "Bidirectional") {
        const char* const modes[] = {"concat", "sum", "ave", "mul"};
        config = {{"layer", LayerJson("LSTM", config)}, {"merge_mode", modes[draw(0, 3)]}};
      }
      const json model = SequentialJson(
          {LayerJson("Embedding", {{"input_dim", 5}, {"output_dim", 2}, {"mask_zero", true}}),
           LayerJson(name, config), LayerJson("Flatten", json::object()),
           LayerJson("Dense", {{"units", 2}, {"name", "last"}})});
      CheckGradients(model, "mse", SchemaOf({draw(1, 6)}, {2}), 0, seed, [](Batch& batch) {
        for (float& x : batch.inputs[0].values) x = std::floor((x + 1) * 2.49f);
      });
    }
  }
}

TEST_CASE("gradients of batch normalisation under a mask agree with differences") {
  for (uint32_t seed = 1; seed < 9; ++seed) {
    Draw draw(seed);
    const json norm = {{"scale", draw(0, 3) > 0}, {"center", draw(0, 3) > 0}, {"epsilon", 0.01}};
    const json model = SequentialJson(
        {LayerJson("Embedding", {{"input_dim", 5}, {"output_dim", 3}, {"mask_zero", true}}),
         LayerJson("BatchNormalization", norm),
         LayerJson("Dense", {{"units", draw(1, 4)}, {"activation", "tanh"}}),
         LayerJson("BatchNormalization", norm), LayerJson("GlobalAveragePooling1D", json::object()),
         LayerJson("Dense", {{"units", 2}, {"name", "last"}})});
    CheckGradients(model, "mse", SchemaOf({draw(2, 6)}, {2}), 0, seed, [](Batch& batch) {
      std::vector<float>& ids = batch.inputs[0].values;
      for (float& x : ids) x = std::floor((x + 1) * 2.49f);
      const size_t steps = ids.size() / batch.examples;
      for (size_t i = 0; i < ids.size(); i += steps) ids[i] = std::max(ids[i], 1.f);
    });
  }
}

// Without sparsemax, because Keras' version is discontinuous.
TEST_CASE("gradients of more layers between two others agree with differences") {
  const json dense = LayerJson("Dense", {{"units", 3}, {"activation", "tanh"}});
  const std::vector<std::pair<const char*, json>> layers = {
      {"TimeDistributed", {{"layer", dense}}},
      {"Bidirectional",
       {{"layer", LayerJson("GRU", {{"units", 2}, {"activity_regularizer", "l2"}})}}},
      {"PReLU", {{"shared_axes", {1}}}},
      {"PReLU", json::object()},
      {"GroupNormalization", {{"groups", 2}}},
      {"RMSNormalization", json::object()},
      {"UnitNormalization", json::object()},
      {"ActivityRegularization", {{"l1", 0.1}, {"l2", 0.2}}},
      {"Dense", {{"units", 4}, {"activation", "glu"}}},
      {"Softmax", json::object()},
      {"Masking", {{"mask_value", 5}}},
  };
  for (const auto& [name, config] : layers) {
    for (uint32_t seed = 1; seed < 5; ++seed) {
      Draw draw(seed);
      json around = {{"units", 2 * draw(1, 3)}, {"activity_regularizer", "l2"}};
      const json model = SequentialJson({LayerJson("Dense", around), LayerJson(name, config),
                                         LayerJson("Flatten", json::object()),
                                         LayerJson("Dense", {{"units", 2}, {"name", "last"}})});
      CheckGradients(model, "mse", SchemaOf({draw(1, 4), draw(1, 3)}, {2}), 0, seed);
    }
  }
}

TEST_CASE("gradients of every other loss agree with differences") {
  // A loss, the activation before it, and whether targets must be positive.
  const std::vector<std::tuple<const char*, const char*, bool>> losses = {
      {"mean_squared_logarithmic_error", "sigmoid", true},
      {"mean_absolute_percentage_error", "linear", true},
      {"huber", "linear", false},
      {"log_cosh", "linear", false},
      {"hinge", "tanh", false},
      {"squared_hinge", "linear", false},
      {"categorical_hinge", "linear", true},
      {"kl_divergence", "softmax", true},
      {"poisson", "exponential", true},
      {"cosine_similarity", "tanh", false},
  };
  for (const auto& [loss, activation, positive] : losses) {
    for (uint32_t seed = 1; seed < 5; ++seed) {
      Draw draw(seed);
      const uint64_t width = draw(2, 5);
      const json model =
          SequentialJson({LayerJson("Dense", {{"units", 3}, {"activation", "tanh"}}),
                          LayerJson("Dense", {{"units", width}, {"activation", activation}})});
      const bool make_positive = positive;
      CheckGradients(model, loss, SchemaOf({draw(1, 4)}, {width}), 0, seed,
                     [make_positive](Batch& batch) {
                       for (float& x : batch.targets[0].values) {
                         if (make_positive) x = 0.1f + std::abs(x);
                       }
                     });
    }
  }
}

}  // namespace
}  // namespace paracord
