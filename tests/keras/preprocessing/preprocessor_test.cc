#include "keras/preprocessing/preprocessor.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "keras/build.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

// Returns a model: input "x" -> layer "p" with `config` -> Flatten, the output.
json ModelOf(const std::string& class_name, json config, const std::string& dtype, json shape) {
  config["name"] = "p";
  return SequentialJson(
      {LayerJson("InputLayer",
                 {{"name", "x"}, {"dtype", dtype}, {"batch_shape", std::move(shape)}}),
       LayerJson(class_name, std::move(config)), LayerJson("Flatten", {{"name", "flat"}})});
}

Batch TextBatch(std::vector<std::string> strings, std::vector<uint64_t> shape = {1}) {
  Batch batch;
  uint64_t each = 1;
  for (const uint64_t dim : shape) each *= dim;
  batch.examples = static_cast<uint32_t>(strings.size() / each);
  batch.inputs.push_back({"x", std::move(shape), {}, true, std::move(strings)});
  return batch;
}

Batch NumberBatch(std::vector<float> values, std::vector<uint64_t> shape = {1}) {
  Batch batch;
  uint64_t each = 1;
  for (const uint64_t dim : shape) each *= dim;
  batch.examples = static_cast<uint32_t>(values.size() / each);
  batch.inputs.push_back({"x", std::move(shape), std::move(values)});
  return batch;
}

Batch SchemaOfInputs(const Batch& batch, std::vector<uint64_t> target = {1}) {
  Batch schema;
  schema.inputs = batch.inputs;
  schema.inputs[0].values.clear();
  schema.inputs[0].strings.clear();
  schema.targets.push_back({"", std::move(target), {}});
  return schema;
}

absl::StatusOr<std::vector<float>> Output(const json& model, const Batch& batch,
                                          uint64_t width = 1) {
  absl::StatusOr<std::unique_ptr<GradientProgram>> program = BuildKerasProgram(
      JobFor(model, "mean_squared_error"), SchemaOfInputs(batch, {width}), TestOps());
  if (!program.ok()) return program.status();
  auto outputs = (*program)->Predict(batch, {});
  if (!outputs.ok()) return outputs.status();
  return (*outputs)[0].values;
}

void CheckRefusedInputs(const json& model, const Batch& batch, const std::string& expected,
                        uint64_t width = 1) {
  INFO(expected);
  const absl::Status status = Output(model, batch, width).status();
  INFO(status);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message().find(expected) != std::string::npos);
}

struct Bad {
  const char* layer;
  json config;
  const char* expected;
};

const json kWords = {"a", "b"};

const Bad kBadOfStrings[] = {
    {"StringLookup", json::object(), "key \"vocabulary\": is not in the model file"},
    {"StringLookup", {{"vocabulary", "words.txt"}}, "\"vocabulary\": must be a list"},
    {"StringLookup", {{"vocabulary", json::array()}}, "\"vocabulary\": must be a list"},
    {"StringLookup", {{"vocabulary", {"a", "a"}}}, "holds \"a\" twice"},
    {"StringLookup", {{"vocabulary", {"a", 1}}}, "1 must be a string"},
    {"StringLookup", {{"vocabulary", {"a", "m"}}, {"mask_token", "m"}}, "the mask_token"},
    {"StringLookup", {{"vocabulary", kWords}, {"mask_token", 0}}, "\"mask_token\""},
    {"StringLookup", {{"vocabulary", kWords}, {"invert", true}}, "\"invert\""},
    {"StringLookup", {{"vocabulary", kWords}, {"salt", "s"}}, "\"salt\""},
    {"StringLookup", {{"vocabulary", kWords}, {"encoding", "latin-1"}}, "\"encoding\""},
    {"StringLookup", {{"vocabulary", kWords}, {"num_oov_indices", -1}}, "\"num_oov_indices\""},
    {"StringLookup", {{"vocabulary", kWords}, {"output_mode", "hot"}}, "\"output_mode\""},
    {"StringLookup", {{"vocabulary", kWords}, {"max_tokens", 2}}, "\"max_tokens\""},
    {"StringLookup", {{"vocabulary", kWords}, {"pad_to_max_tokens", true}}, "needs max_tokens"},
    {"StringLookup", {{"vocabulary", kWords}, {"output_mode", "tf_idf"}}, "\"idf_weights\""},
    {"StringLookup",
     {{"vocabulary", kWords}, {"output_mode", "tf_idf"}, {"idf_weights", {1.0}}},
     "\"idf_weights\""},
    {"StringLookup", {{"vocabulary", kWords}, {"magic", 1}}, "\"magic\""},
    {"StringLookup", {{"vocabulary", kWords}, {"dtype", "float16"}}, "\"dtype\""},
    {"IntegerLookup", {{"vocabulary", {1, 2}}}, "takes numbers, but its input gives strings"},
    {"CategoryEncoding", {{"num_tokens", 3}}, "takes numbers, but its input gives strings"},
    {"Discretization", {{"bin_boundaries", {1, 2}}}, "takes numbers"},
    {"Hashing", json::object(), "\"num_bins\""},
    {"Hashing", {{"num_bins", 0}}, "\"num_bins\""},
    {"Hashing", {{"num_bins", 5}, {"salt", {1, 2, 3}}}, "\"salt\""},
    {"Hashing", {{"num_bins", 5}, {"mask_value", 7}}, "\"mask_value\": is a number"},
    {"Hashing", {{"num_bins", 5}, {"mask_value", 0.5}}, "\"mask_value\""},
    {"Hashing", {{"num_bins", 20000000}}, "has 20000000 indices"},
    {"HashedCrossing", {{"num_bins", 5}}, "takes two inputs or more"},
};

const Bad kBadOfNumbers[] = {
    {"StringLookup", {{"vocabulary", kWords}}, "takes strings, but its input gives numbers"},
    {"IntegerLookup", {{"vocabulary", {1, 1}}}, "holds 1 twice"},
    {"IntegerLookup", {{"vocabulary", {1}}, {"salt", 1}}, "\"salt\": needs oov_method"},
    {"IntegerLookup", {{"vocabulary", {1.5}}}, "1.5 must be a whole number"},
    {"CategoryEncoding", json::object(), "\"num_tokens\""},
    {"CategoryEncoding", {{"num_tokens", 3}, {"output_mode", "int"}}, "\"output_mode\""},
    {"Discretization", {{"num_bins", 4}}, "\"bin_boundaries\": is not in the model file"},
    {"Discretization", {{"bin_boundaries", {2, 1}}}, "must ascend"},
    {"Discretization", {{"bin_boundaries", {"a"}}}, "must be a list of numbers"},
    {"Hashing", {{"num_bins", 5}, {"mask_value", ""}}, "\"mask_value\": is a string"},
};

TEST_CASE("configs of preprocessing layers that cannot be are errors that name layer and key") {
  for (const Bad& bad : kBadOfStrings) {
    INFO(bad.layer << bad.config);
    const json model = ModelOf(bad.layer, bad.config, "string", {nullptr, 1});
    CheckRefusedInputs(model, TextBatch({"a"}), bad.expected);
    CheckRefusedInputs(model, TextBatch({"a"}), absl::StrCat("\"p\" (", bad.layer, ")"));
  }
  for (const Bad& bad : kBadOfNumbers) {
    INFO(bad.layer << bad.config);
    CheckRefusedInputs(ModelOf(bad.layer, bad.config, "float32", {nullptr, 1}), NumberBatch({1}),
                       bad.expected);
  }
  CheckRefusedInputs(ModelOf("CategoryEncoding", {{"num_tokens", 3}}, "float32", {nullptr, 2, 2}),
                     NumberBatch({1, 1, 1, 1}, {2, 2}),
                     "for examples of one axis, not of shape (2, 2)");
}

TEST_CASE("values that no layer can take are errors that name the example") {
  const json lookup = {{"vocabulary", {"a", "b"}}, {"num_oov_indices", 0}};
  CheckRefusedInputs(ModelOf("StringLookup", lookup, "string", {nullptr, 1}), TextBatch({"a", "c"}),
                     "example 1 of the batch: \"c\" is not in the vocabulary of layer \"p\"");
  const json one_hot = {{"num_tokens", 3}, {"output_mode", "count"}};
  CheckRefusedInputs(ModelOf("CategoryEncoding", one_hot, "float32", {nullptr, 2}),
                     NumberBatch({0, 1, 2, -1}, {2}),
                     "example 1 of the batch: index -1 is negative", 3);
  CheckRefusedInputs(ModelOf("CategoryEncoding", one_hot, "float32", {nullptr, 1}),
                     NumberBatch({NAN}), "example 0 of the batch", 3);
  const json wide = {{"num_tokens", 1 << 20}, {"output_mode", "count"}};
  CheckRefusedInputs(ModelOf("CategoryEncoding", wide, "float32", {nullptr, 1}),
                     NumberBatch(std::vector<float>((1 << 20) + 1, 0)),
                     "layer \"p\" (CategoryEncoding): shape (1048577, 1048576) is beyond", 1 << 20);
  const json ids = ModelOf("IntegerLookup", {{"vocabulary", {1, 2}}}, "int64", {nullptr, 1});
  CheckRefusedInputs(ids, NumberBatch({1, 16777216}),
                     "example 1 of the batch: 1.67772e+07 is beyond");
  CheckRefusedInputs(ids, NumberBatch({1, 1.5}), "example 1 of the batch: 1.5 is no whole number");
  Batch beyond = NumberBatch({1, 18446744073709551615.f});
  beyond.inputs[0].exact = {{1, -1}};  // equal in 64 bits
  CheckRefusedInputs(ids, beyond, "example 1 of the batch: 18446744073709551615 is beyond int64");
  CheckRefusedInputs(ids, NumberBatch({INFINITY}), "example 0 of the batch");
  CheckRefusedInputs(ids, TextBatch({"1", "2", "x"}),
                     "example 2 of the batch: \"x\" is no whole number");
  CheckRefusedInputs(ids, TextBatch({"9223372036854775808"}), "is no whole number");
}

TEST_CASE("whole numbers given as text are exact") {
  const json vocabulary = {16777216, 16777217, 9007199254740993};
  const json ids = ModelOf("IntegerLookup", {{"vocabulary", vocabulary}}, "int64", {nullptr, 1});
  const auto output = Output(ids, TextBatch({"16777217", "9007199254740993", "9007199254740992"}));
  REQUIRE(output.ok());
  CHECK(*output == std::vector<float>{2, 3, 0});
}

TEST_CASE("a column must be of the kind that the model's input has") {
  const json words = ModelOf("StringLookup", {{"vocabulary", {"a"}}}, "string", {nullptr, 1});
  CheckRefusedInputs(words, NumberBatch({1}),
                     "\"x\" (InputLayer): takes strings, but the data gives");
  const json numbers = ModelOf("CategoryEncoding", {{"num_tokens", 3}}, "float32", {nullptr, 1});
  CheckRefusedInputs(numbers, TextBatch({"1"}),
                     "\"x\" (InputLayer): takes numbers, but the data gives");
  const json dense = SequentialJson({LayerJson("Dense", {{"units", 1}, {"name", "d"}})});
  CheckRefusedInputs(dense, TextBatch({"1"}), "is strings, which only preprocessing layers take");

  Batch other = TextBatch({"a", "a"});
  auto program =
      BuildKerasProgram(JobFor(words, "mean_squared_error"), SchemaOfInputs(other), TestOps());
  REQUIRE(program.ok());
  other.inputs[0].strings.pop_back();
  CHECK(absl::IsInvalidArgument((*program)->Predict(other, {}).status()));
  other.inputs[0].text = false;
  CHECK(absl::IsInvalidArgument((*program)->Predict(other, {}).status()));
  other.inputs.clear();
  CHECK(absl::IsInvalidArgument((*program)->Predict(other, {}).status()));
}

TEST_CASE("without an InputLayer the data says what a layer is given") {
  const json model = SequentialJson(
      {LayerJson("StringLookup", {{"vocabulary", {"a", "b"}}, {"name", "p"}}),
       LayerJson("Embedding", {{"input_dim", 3}, {"output_dim", 2}, {"name", "e"}})});
  const Batch batch = TextBatch({"b", "z"});
  auto program = BuildKerasProgram(JobFor(model, "mean_squared_error"),
                                   SchemaOfInputs(batch, {1, 2}), TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  CHECK((*program)->Summary().find("p (StringLookup)") != std::string::npos);
  const std::vector<float> embeddings = {1, 2, 3, 4, 5, 6};
  const std::vector<std::span<const float>> values = {embeddings};
  const auto output = (*program)->Predict(batch, values);
  REQUIRE(output.ok());
  CHECK((*output)[0].values == std::vector<float>{5, 6, 1, 2});
}

TEST_CASE("bad preprocessing layers and bad layers behind them are a line each, with data or not") {
  const auto model = [](const char* shape_of, json vocabulary) {
    return SequentialJson(
        {LayerJson("InputLayer",
                   {{"name", "x"}, {"dtype", shape_of}, {"batch_shape", {nullptr, 1}}}),
         LayerJson("StringLookup", {{"name", "p"}, {"vocabulary", std::move(vocabulary)}}),
         LayerJson("CategoryEncoding", {{"name", "c"}, {"num_tokens", 0}}),
         LayerJson("Dense", {{"name", "d"}, {"units", 0}})});
  };
  const auto lines = [](const absl::Status& status) {
    const std::string text(status.message());
    return text.empty() ? 0 : std::count(text.begin(), text.end(), '\n') + 1;
  };
  const Batch text = TextBatch({"a"});
  const auto built = [&](const json& bad) {
    return BuildKerasProgram(JobFor(bad, "mean_squared_error"), SchemaOfInputs(text), TestOps())
        .status();
  };
  const auto alone = [&](const json& bad) {
    return CheckKerasModel(JobFor(bad, "mean_squared_error"), TestOps());
  };
  const json three = model("string", {"a", 1});
  INFO(built(three));
  CHECK(lines(built(three)) == 3);
  CHECK(alone(three).message() == built(three).message());
  // The input takes numbers and the data has strings. This is reported, but no consequence of it.
  const json two = model("float32", {"a"});
  INFO(built(two));
  CHECK(lines(built(two)) == 3);
  CHECK(std::string(built(two).message()).find("takes numbers, but the data gives strings") !=
        std::string::npos);
  CHECK(lines(alone(two)) == 2);
}

TEST_CASE("behind other layers a preprocessing layer is refused, and says why") {
  const json model =
      SequentialJson({LayerJson("Dense", {{"units", 1}, {"name", "d"}}),
                      LayerJson("Discretization", {{"bin_boundaries", {0.0}}, {"name", "p"}})});
  CheckRefusedInputs(model, NumberBatch({1}), "not what other layers compute");
  const json unknown = SequentialJson({LayerJson("TFDConcat", {{"name", "t"}})});
  CheckRefusedInputs(unknown, TextBatch({"a"}), "StringLookup");
}

TEST_CASE("a TextVectorization that has no fixed length, words or texts is refused") {
  const auto refused = [](json config, const char* expected, const Batch& batch) {
    config["name"] = "t";
    if (!config.contains("vocabulary")) config["vocabulary"] = {"a", "b"};
    CheckRefusedInputs(SequentialJson({LayerJson("TextVectorization", config)}), batch, expected);
  };
  const Batch texts = TextBatch({"a b", "c"});
  refused({}, "key \"output_sequence_length\": must be given", texts);
  const json length = {{"output_sequence_length", 2}};
  const auto with = [&](const char* key, const json& value) {
    json config = length;
    config[key] = value;
    return config;
  };
  refused(with("vocabulary", nullptr), "key \"vocabulary\": is not in the model file", texts);
  refused(with("split", nullptr), "key \"split\": must be \"whitespace\"", texts);
  refused(with("split", "sentence"), "key \"split\"", texts);
  refused(with("ngrams", json::array({0})), "key \"ngrams\"", texts);
  refused(with("ragged", true), "key \"ragged\"", texts);
  refused(length, "takes strings", NumberBatch({1, 2}));
  refused({{"output_sequence_length", 1}}, "not UTF-8", TextBatch({"a", "\xff"}));
}

TEST_CASE("an argument of a preprocessing layer's call that is no data is refused") {
  const auto tensor = [](const char* layer) -> json {
    return {{"class_name", "__keras_tensor__"}, {"config", {{"keras_history", {layer, 0, 0}}}}};
  };
  for (const json& counts : {tensor("x"), json(2)}) {
    json encoding = LayerJson("CategoryEncoding", {{"num_tokens", 3}, {"name", "c"}});
    encoding["name"] = "c";
    encoding["inbound_nodes"] = {
        {{"args", json::array({tensor("x")})}, {"kwargs", {{"count_weights", counts}}}}};
    json input = LayerJson("InputLayer", {{"batch_shape", {nullptr, 2}}, {"name", "x"}});
    input["name"] = "x";
    const json model = {{"class_name", "Functional"},
                        {"config",
                         {{"layers", {input, encoding}},
                          {"input_layers", {{"x", 0, 0}}},
                          {"output_layers", {{"c", 0, 0}}}}}};
    CheckRefusedInputs(model, NumberBatch({1, 2}, {2}),
                       "layer \"c\" (CategoryEncoding): key \"count_weights\"", 3);
  }
}

TEST_CASE("a frozen model is frozen behind preprocessing layers, too") {
  const json model = {{"class_name", "Functional"},
                      {"config",
                       {{"trainable", false},
                        {"layers",
                         {Named("InputLayer", "x", {{"batch_shape", {nullptr, 2}}}, json::array()),
                          Named("CategoryEncoding", "c", {{"num_tokens", 3}}, {Call("x")}),
                          Named("Dense", "d", {{"units", 1}}, {Call("c")})}},
                        {"input_layers", {{"x", 0, 0}}},
                        {"output_layers", {{"d", 0, 0}}}}}};
  const auto program =
      BuildKerasProgram(JobFor(model, "mse"), SchemaOfInputs(NumberBatch({1, 2}, {2})), TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  for (const VariableSpec& variable : (*program)->variables()) CHECK_FALSE(variable.trainable());
}

}  // namespace
}  // namespace paracord
