// Tests which model files are accepted, and the messages for the rest.
#include <catch2/catch.hpp>
#include <sstream>
#include <tuple>

#include "common/json_text.h"
#include "keras/build.h"
#include "tests/keras/graph_json.h"

namespace paracord {
namespace {

using nlohmann::json;

absl::Status BuildStatus(const json& model, const Batch& schema) {
  return BuildKerasProgram(JobFor(model, "mse"), schema, TestOps()).status();
}

json Dense(json config) { return LayerJson("Dense", std::move(config)); }

const json kDenseLayer = Dense({{"name", "d"}, {"units", 2}});

// A model of one Dense layer named "d".
json WithDense(json config) {
  config["name"] = "d";
  if (!config.contains("units")) config["units"] = 2;
  return SequentialJson({LayerJson("Dense", config)});
}

json WithRnn(const json& cell, bool state = false) {
  return SequentialJson(
      {LayerJson("RNN", {{"name", "r"}, {"cell", cell}, {"return_state", state}})});
}

const std::string kExportNamed = "; paracord.keras.export makes a program of a model with others";

const std::vector<std::pair<json, std::string>> kWrongModels = {
    {json(), "model: must be a JSON object"},
    {json::array(), "model: must be a JSON object"},
    {json::object(), "class_name \"\" is not supported; supported: Sequential"},
    {{{"class_name", "MyModel"}}, "class_name \"MyModel\" is not supported"},
    {{{"class_name", "Functional"}}, "has no config object"},
    {{{"class_name", "Sequential"}}, "has no config object"},
    {{{"class_name", "Sequential"}, {"config", 3}}, "has no config object"},
    {SequentialJson({}), "config.layers must be a list"},
    {SequentialJson({3}), "layers[0] must be an object"},
    {SequentialJson({json::object()}), "layers[0] has no class_name"},
    {SequentialJson({{{"class_name", "Dense"}}}), "layers[0] (Dense) has no config"},
    {SequentialJson({kDenseLayer, kDenseLayer}), "two layers have the name \"d\""},
    {SequentialJson({LayerJson("Dens", {{"name", "a"}})}),
     "layer \"a\" (Dens) is not supported (did you mean \"Dense\"?)"},
    {SequentialJson({LayerJson("ConvLSTM2D", {{"name", "a"}})}),
     "layer \"a\" (ConvLSTM2D) is not supported"},
    {SequentialJson({LayerJson("SpectralNormalization", {{"name", "a"}})}), kExportNamed},
    {SequentialJson({LayerJson("SpectralNormalization", {{"name", "a"}})}),
     "(docs/stablehlo.md); supported: "},  // advice comes before the list
    {SequentialJson({LayerJson("TFOpLambda", {{"name", "a"}, {"function", "__operators__.eq"}})}),
     "layer \"a\" (TFOpLambda): Keras 2 does not write what == and != compare with"},
    {SequentialJson({LayerJson("TFOpLambda", {{"name", "a"}, {"function", "signal.fft"}})}),
     "function \"signal.fft\" is not supported; paracord.keras.export makes a program of"},
    {SequentialJson(
         {LayerJson("TimeDistributed",
                    {{"name", "t"},
                     {"layer", SequentialJson({LayerJson(
                                   "TFOpLambda", {{"name", "a"}, {"function", "math.tanh"}})})}})}),
     "layer \"a\" (Tanh): is an operation on tensors"},
    {WithRnn(3), "layer \"r\" (RNN): key \"cell\": must be a cell"},
    {WithRnn({{"class_name", "MyCell"}, {"config", json::object()}}),
     "layer \"r\" (RNN): key \"cell\": MyCell is not supported; supported: LSTMCell, GRUCell"},
    {WithRnn({{"class_name", "GRUCell"}, {"config", 3}}), "GRUCell is not supported"},
    {WithRnn({{"class_name", "GRUCell"}, {"config", {{"name", "a\nb"}}}}), "has an unusable name"},
    {WithRnn({{"class_name", "StackedRNNCells"}, {"config", 3}}), "key \"cell\": has no cells"},
    {WithRnn({{"class_name", "StackedRNNCells"}, {"config", {{"cells", {3}}}}}),
     "what it has is not supported"},
    {WithRnn({{"class_name", "StackedRNNCells"}, {"config", {{"cells", json::array()}}}}, true),
     "key \"return_state\": is not supported with several cells"},
    {SequentialJson({kDenseLayer, LayerJson("InputLayer", {{"name", "i"}})}), "must be the first"},
    {SequentialJson({Dense({{"name", "d"}})}), "layer \"d\" (Dense): key \"units\": is missing"},
    {WithDense({{"units", 0}}), "key \"units\": must be a whole number"},
    {WithDense({{"units", -3}}), "key \"units\""},
    {WithDense({{"units", 2.5}}), "key \"units\""},
    {WithDense({{"units", "2"}}), "key \"units\""},
    {WithDense({{"units", uint64_t{1} << 63}}), "key \"units\""},
    {WithDense({{"units", int64_t{1} << 60}}),
     "key \"units\": must be at most 2147483647, not 1152921504606846976"},
    {WithDense({{"use_bias", "yes"}}), "key \"use_bias\": must be true or false"},
    {WithDense({{"activation", "rellu"}}), "did you mean \"relu\"?"},
    {WithDense({{"activation", {{"class_name", "function"}, {"config", "my_fn"}}}}),
     "layer \"d\" (Dense): key \"activation\""},
    {WithDense({{"kernel_regularizer", {{"class_name", "Mine"}}}}), "key \"kernel_regularizer\""},
    {WithDense({{"kernel_constraint", {{"class_name", "RadialConstraint"}}}}),
     "supported: NonNeg, MaxNorm, UnitNorm, MinMaxNorm"},
    {WithDense({{"kernel_constraint", {{"class_name", "MaxNorm"}, {"config", {{"axis", "x"}}}}}}),
     "key \"axis\": must be an axis, or a list of them"},
    {WithDense({{"kernel_constraint", {{"class_name", "MaxNorm"}, {"config", {{"axis", 2}}}}}}),
     "key \"kernel_constraint\": axis 2 is none of 2 axes"},
    {WithDense({{"kernel_constraint", {{"class_name", "UnitNorm"}, {"config", {{"power", 2}}}}}}),
     "key \"power\": 2 is not supported here"},
    {WithDense(
         {{"kernel_constraint",
           {{"class_name", "MinMaxNorm"}, {"config", {{"min_value", 2}, {"max_value", 1}}}}}}),
     "key \"max_value\": must be at least min_value"},
    {WithDense({{"something_new", true}}), "key \"something_new\""},
    {WithDense({{"kernel_initializer", "orthogonall"}}), "key \"kernel_initializer\""},
    {WithDense({{"dtype", {{"class_name", "DTypePolicy"}, {"config", {{"name", "bfloat16"}}}}}}),
     "key \"dtype\": \"bfloat16\" is not supported"},
    {SequentialJson({LayerJson("Dropout", {{"name", "d"}, {"rate", 1}})}), "key \"rate\""},
    {SequentialJson({LayerJson("Conv2D", {{"name", "c"}, {"filters", 2}, {"kernel_size", 3}})}),
     "layer \"c\" (Conv2D): needs an input of (height, width, channels), not (6,)"},
    {SequentialJson({LayerJson("Conv2D", {{"name", "c"}, {"filters", 2}, {"kernel_size", 20000}})}),
     "layer \"c\" (Conv2D): key \"kernel_size\": must have at most 4194304 places, not 20000 x "
     "20000"},
    {SequentialJson({LayerJson("Reshape", {{"name", "r"}, {"target_shape", {4, 2}}})}),
     "layer \"r\" (Reshape): cannot reshape (6,) into (4, 2)"},
    {SequentialJson({LayerJson("Reshape", {{"name", "r"}, {"target_shape", {-1, -1}}})}),
     "cannot reshape"},
    {SequentialJson(
         {LayerJson("InputLayer", {{"name", "i"}, {"batch_shape", {nullptr, 7}}}), kDenseLayer}),
     "layer \"i\" (InputLayer): expects examples of shape (7,), but the data has (6,)"},
    {WithDense({{"units", 1 << 30}}), "the model's output has shape"},
};

TEST_CASE("a mistake in a model file is named by layer and key") {
  for (const auto& [model, message] : kWrongModels) {
    const absl::Status status = BuildStatus(model, SchemaOf({6}, {2}));
    INFO(message << "\n got " << status);
    REQUIRE_FALSE(status.ok());
    CHECK(std::string(status.message()).find(message) != std::string::npos);
  }
}

json LayerOf(const char* class_name, const char* name, json config = json::object()) {
  config["name"] = name;
  return LayerJson(class_name, config);
}

TEST_CASE("each unsupported layer has a line of its own, and its consequences have none") {
  const json input = LayerOf("InputLayer", "in", {{"batch_shape", {nullptr, 6}}});
  const json good = LayerOf("Dense", "good", {{"units", 2}});
  const std::vector<std::pair<json, std::string>> table = {
      // The layers: an unknown one, a correct one, a number in place of a layer, a layer without
      // units.
      {SequentialJson({input, LayerOf("Dens", "a"), good, 7, LayerOf("Dense", "b")}),
       "model: layers[3] must be an object\n"
       "layer \"a\" (Dens) is not supported (did you mean \"Dense\"?)...\n"
       "layer \"b\" (Dense): key \"units\": is missing"},
      // A wrong shape does not hide a bad key in a later layer.
      {SequentialJson({input, LayerOf("Reshape", "r", {{"target_shape", {4}}}),
                       LayerOf("Dropout", "d", {{"rate", 2}}),
                       LayerOf("Dense", "b", {{"units", 0}})}),
       "layer \"r\" (Reshape): cannot reshape (6,) into (4,)\n"
       "layer \"d\" (Dropout): key \"rate\"...\n"
       "layer \"b\" (Dense): key \"units\": must be a whole number of at least 1"},
      // The data do not fit, so the build goes on with the shape in the model.
      {SequentialJson({LayerOf("InputLayer", "in", {{"batch_shape", {nullptr, 3}}}),
                       LayerOf("Reshape", "r", {{"target_shape", {4}}})}),
       "layer \"in\" (InputLayer): expects examples of shape (3,), but the data has (6,)\n"
       "layer \"r\" (Reshape): cannot reshape (3,) into (4,)"},
      {SequentialJson({good, good}), "model: two layers have the name \"good\""},
  };
  for (const auto& [model, expected] : table) {
    Job job = JobFor(model, "mse");
    const auto lines = [&](const std::string& text) {
      std::vector<std::string> all;
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);) all.push_back(line);
      return all;
    };
    const auto built = BuildKerasProgram(job, SchemaOf({6}, {2}), TestOps());
    REQUIRE_FALSE(built.ok());
    const std::vector<std::string> got = lines(std::string(built.status().message()));
    const std::vector<std::string> want = lines(expected);
    INFO(built.status());
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].starts_with(want[i].substr(0, want[i].find("..."))));
    }
    // Losses and metrics are checked nevertheless.
    job.loss.name = "mze";
    job.metrics.push_back({"acuracy"});
    const auto more = BuildKerasProgram(job, SchemaOf({6}, {2}), TestOps());
    CHECK(lines(std::string(more.status().message())).size() == want.size() + 2);
  }
}

TEST_CASE("without data a model's problems are found that need none") {
  const json input = LayerOf("InputLayer", "in", {{"batch_shape", {nullptr, 6}}});
  const json open = LayerOf("InputLayer", "in", {{"batch_shape", {nullptr, nullptr}}});
  const json reshape = LayerOf("Reshape", "r", {{"target_shape", {4}}});
  const json dense = LayerOf("Dense", "d", {{"units", 2}});
  const auto check = [](const json& model) {
    return std::string(CheckKerasModel(JobFor(model, "mse"), TestOps()).message());
  };
  CHECK(check(SequentialJson({input, dense})).empty());
  CHECK(check(SequentialJson({open, reshape, dense})).empty());
  const json huge = LayerOf("InputLayer", "in", {{"batch_shape", {nullptr, 1 << 30, 1 << 30, 4}}});
  const json none = LayerOf("InputLayer", "in", {{"batch_shape", {nullptr, 0}}});
  CHECK(check(SequentialJson({huge, dense})).find("\"in\" (InputLayer): shape") == 6);
  CHECK(check(SequentialJson({none, dense})).empty());
  CHECK(check(SequentialJson({input, reshape})) ==
        "layer \"r\" (Reshape): cannot reshape (6,) into (4,)");
  CHECK(check(SequentialJson({open, reshape, LayerOf("Dense", "d")})) ==
        "layer \"d\" (Dense): key \"units\": is missing");
}

TEST_CASE("keys at their off value are skipped, whatever they are called") {
  const json model = SequentialJson({Dense({{"units", 2},
                                            {"kernel_regularizer", nullptr},
                                            {"lora_rank", nullptr},
                                            {"quantization_config", nullptr},
                                            {"use_gate", false},
                                            {"mode", "none"}})});
  CHECK(BuildStatus(model, SchemaOf({6}, {2})).ok());
}

TEST_CASE("a window larger than its image is refused, not computed") {
  for (const char* padding : {"valid", "same"}) {
    const json model = SequentialJson(
        {LayerJson("Conv2D",
                   {{"name", "c"}, {"filters", 1}, {"kernel_size", 5}, {"padding", padding}}),
         LayerJson("Flatten", json::object()), Dense({{"units", 2}})});
    CHECK(BuildStatus(model, SchemaOf({3, 4, 1}, {2})).ok() == (std::string(padding) == "same"));
  }
}

TEST_CASE("data fits an input up to a last axis of one, as in Keras") {
  const std::vector<std::tuple<json, std::vector<uint64_t>, bool>> table = {
      {{nullptr, 4, 4}, {4, 4}, true},     {{nullptr, 4, 4, 1}, {4, 4}, true},
      {{nullptr, 4, 4}, {4, 4, 1}, true},  {{nullptr, nullptr, nullptr, 1}, {4, 4}, true},
      {{nullptr, 16}, {4, 4}, false},      {{nullptr, 4, 4, 2}, {4, 4}, false},
      {{nullptr, 4, 5}, {4, 4}, false},    {{8, 4, 4}, {4, 4}, true},
      {{nullptr, 1, 4, 4}, {4, 4}, false}, {{nullptr, 1}, {}, true},
  };
  for (const auto& [shape, data, fits] : table) {
    INFO(TextOf(shape) << " for data of rank " << data.size());
    for (const char* key : {"batch_shape", "batch_input_shape"}) {
      const json model =
          SequentialJson({LayerJson("InputLayer", {{key, shape}}),
                          LayerJson("Flatten", json::object()), Dense({{"units", 2}})});
      CHECK(BuildStatus(model, SchemaOf(data, {2})).ok() == fits);
    }
  }
}

TEST_CASE("unknown losses, metrics and options are refused with the nearest name") {
  const json model = SequentialJson({Dense({{"units", 2}})});
  Job job = JobFor(model, "mean_sqared_error");
  const Batch schema = SchemaOf({6}, {2});
  const auto message = [&] {
    return std::string(BuildKerasProgram(job, schema, TestOps()).status().message());
  };
  CHECK(message().find("did you mean \"mean_squared_error\"") != std::string::npos);
  job.loss.name = "binary_crossentropy";
  job.loss.options = {{"from_logit", true}};
  CHECK(message().find("did you mean `from_logits`") != std::string::npos);
  job.loss.options = {{"from_logits", true}, {"reduction", "sum_over_batch_size"}, {"axis", -1}};
  CHECK(message().empty());
  job.metrics = {{"huber", {{"reduction", "sum_over_batch_size"}}}};  // a loss as a metric
  CHECK(message().empty());
  job.metrics.clear();
  for (const char* reduction : {"mean", "sum"}) {
    job.loss.options["reduction"] = reduction;
    CHECK(message().empty());
  }
  for (const json& none : {json("none"), json()}) {
    job.loss.options["reduction"] = none;
    CHECK(message() == "loss binary_crossentropy.reduction: " + TextOf(none) +
                           " is not supported (Keras would learn from the sum of the losses and "
                           "show their mean); supported: sum_over_batch_size, mean, sum");
  }
  job.loss.options["reduction"] = "mean_with_sample_weight";
  CHECK(message().find("reduction: \"mean_with_sample_weight\" is not supported") !=
        std::string::npos);
  job.loss.options.erase("reduction");
  job.metrics.push_back({"acuracy"});
  CHECK(message().find("did you mean \"accuracy\"") != std::string::npos);
  job.metrics[0].name = "sparse_categorical_accuracy";
  CHECK(message().find("the data's targets have") != std::string::npos);
}

// A data source that only knows the places of its records.
class PlaceOnly : public DataSource {
 public:
  uint64_t records() const override { return 10; }
  std::string fingerprint() const override { return ""; }
  const Batch& schema() const override { return schema_; }
  absl::Status Read(std::span<const uint64_t>, Batch&) const override {
    return absl::UnimplementedError("");
  }
  std::string Where(uint64_t record) const override {
    return "labels.gz row " + std::to_string(record);
  }

 private:
  Batch schema_;
};

TEST_CASE("a label that is no class is refused by file and row") {
  Job job = JobFor(SequentialJson({Dense({{"units", 3}, {"activation", "softmax"}})}),
                   "sparse_categorical_crossentropy");
  const Batch schema = SchemaOf({4}, {});
  auto program = BuildKerasProgram(job, schema, TestOps());
  REQUIRE(program.ok());
  Variables variables(**program);
  for (const float label : {3.f, -1.f, 0.5f, NAN, INFINITY}) {
    Batch batch = RandomBatch(schema, 4, 3, 1);
    batch.targets[0].values[2] = label;
    const auto compute = [&] {
      return (*program)
          ->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
          .status();
    };
    CHECK(compute().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(compute().message()).find("example 2 of the batch") != std::string::npos);
    const PlaceOnly source;
    batch.source = &source;
    batch.records = {5, 6, 7, 8};
    CHECK(std::string(compute().message()).find("labels.gz row 7: label") != std::string::npos);
    std::vector<MetricState> states;
    CHECK_FALSE((*program)->Evaluate(batch, variables.value_spans(), states).ok());
  }
}

TEST_CASE("a label of a binary crossentropy outside of 0 to 1 is refused by file and row") {
  Job job = JobFor(SequentialJson({Dense({{"units", 1}, {"activation", "sigmoid"}})}),
                   "binary_crossentropy");
  Batch schema = SchemaOf({4}, {1});
  const bool weighted = GENERATE(false, true);
  if (weighted) schema.weights.emplace_back();
  auto program = BuildKerasProgram(job, schema, TestOps());
  REQUIRE(program.ok());
  Variables variables(**program);
  const auto said = [&](float label, float weight) {
    Batch batch;
    batch.examples = 4;
    batch.inputs = schema.inputs;
    batch.inputs[0].values.assign(16, 0.5f);
    batch.targets = schema.targets;
    batch.targets[0].values = {0, 1, label, 0.25f};
    batch.weights = schema.weights;
    if (weighted) batch.weights[0].values = {1, 1, weight, 1};
    const PlaceOnly source;
    batch.source = &source;
    batch.records = {5, 6, 7, 8};
    return std::string(
        (*program)
            ->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
            .status()
            .message());
  };
  for (const float label : {-1.f, 1.5f, 2.f, -INFINITY}) {
    CHECK(said(label, 1).starts_with("labels.gz row 7: label "));
    CHECK(said(label, 1).find("is outside of 0 to 1, which binary_crossentropy takes: number two "
                              "classes 0 and 1") != std::string::npos);
  }
  CHECK(said(0.5f, 1).empty());
  if (weighted) CHECK(said(-1.f, 0).empty());  // a label that does not count
}

TEST_CASE("a weight of a class that the model does not have is refused by its number") {
  const auto problem = [](int64_t units, const char* activation, const char* loss, int64_t id) {
    Job job = JobFor(SequentialJson({Dense({{"units", units}, {"activation", activation}})}), loss);
    job.loss_weights.by_class = {{0, 1.0}, {id, 2.0}};
    const bool sparse = job.loss.name == "sparse_categorical_crossentropy";
    const auto units_each = static_cast<uint64_t>(units);
    const Batch schema =
        SchemaOf({4}, sparse ? std::vector<uint64_t>{} : std::vector<uint64_t>{units_each});
    return std::string(BuildKerasProgram(job, schema, TestOps()).status().message());
  };
  const std::string sparse = "sparse_categorical_crossentropy", dense = "categorical_crossentropy";
  CHECK(problem(3, "softmax", sparse.c_str(), 2).empty());
  CHECK(problem(3, "softmax", sparse.c_str(), 3) ==
        "class_weight.3: there is no such class: the model has 3, 0 to 2");
  CHECK(problem(3, "softmax", dense.c_str(), 3).starts_with("class_weight.3: "));
  CHECK(problem(1, "sigmoid", "binary_crossentropy", 1).empty());
  CHECK(problem(1, "sigmoid", "binary_crossentropy", 2).starts_with("class_weight.2: "));
  CHECK(problem(1, "linear", "mean_squared_error", 7).empty());  // a loss on numbers gives no hint
}

TEST_CASE("a batch that does not fit the model is refused") {
  Job job = JobFor(SequentialJson({Dense({{"units", 3}})}), "mse");
  const Batch schema = SchemaOf({4}, {3});
  auto program = BuildKerasProgram(job, schema, TestOps());
  REQUIRE(program.ok());
  Variables variables(**program);
  const auto compute = [&](const Batch& batch) {
    return (*program)
        ->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
        .status()
        .code();
  };
  const Batch good = RandomBatch(schema, 4, 0, 1);
  CHECK(compute(good) == absl::StatusCode::kOk);
  std::vector<Batch> bad(6, good);
  bad[0].examples = 0;
  bad[1].examples = 5;
  bad[2].inputs.clear();
  bad[3].inputs[0].shape = {2, 2};
  bad[4].targets[0].values.pop_back();
  bad[5].targets.clear();
  for (const Batch& batch : bad) CHECK(compute(batch) == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("dropout is a function of the batch key and the element alone") {
  const json model = SequentialJson(
      {LayerJson("Dropout", {{"rate", 0.5}}), LayerJson("Dense", {{"units", 8}}),
       LayerJson("Dropout", {{"rate", 0.3}}), Dense({{"name", "last"}, {"units", 2}})});
  const Batch schema = SchemaOf({16}, {2});
  const Batch batch = RandomBatch(schema, 12, 0, 3);
  const auto gradients = [&](uint64_t key, uint32_t accumulate) {
    Job job = JobFor(model, "mse", 12);
    job.accumulate = accumulate;
    auto program = BuildKerasProgram(job, schema, TestOps());
    REQUIRE(program.ok());
    Variables variables(**program);
    variables.Randomise(4);
    REQUIRE((*program)
                ->ComputeGradients(batch, key, variables.value_spans(), variables.gradient_spans())
                .ok());
    return variables.gradients;
  };
  const auto base = gradients(1, 1);
  CHECK(gradients(1, 1) == base);
  CHECK(gradients(2, 1) != base);
  const auto sliced = gradients(1, 5);
  for (size_t i = 0; i < base.size(); ++i) {
    for (size_t j = 0; j < base[i].size(); ++j) {
      REQUIRE(sliced[i][j] == Approx(base[i][j]).epsilon(1e-4).margin(1e-5));
    }
  }
}

TEST_CASE("batches of any size in any order give the same as alone") {
  Job job =
      JobFor(SequentialJson(
                 {LayerJson("Conv2D", {{"filters", 3}, {"kernel_size", 2}, {"activation", "relu"}}),
                  LayerJson("MaxPooling2D", json::object({{"pool_size", 2}})),
                  LayerJson("Flatten", json::object()), Dense({{"units", 2}})}),
             "mse", 7);
  const Batch schema = SchemaOf({5, 5, 2}, {2});
  auto shared = BuildKerasProgram(job, schema, TestOps());
  REQUIRE(shared.ok());
  Variables ours(**shared);
  ours.Randomise(1);
  for (const uint32_t examples : {3u, 7u, 1u, 9u, 2u, 4u, 5u, 6u, 8u, 10u, 11u, 12u, 3u}) {
    auto alone = BuildKerasProgram(job, schema, TestOps());
    REQUIRE(alone.ok());
    Variables theirs(**alone);
    theirs.Randomise(1);
    const Batch batch = RandomBatch(schema, examples, 0, examples);
    REQUIRE((*shared)->ComputeGradients(batch, 1, ours.value_spans(), ours.gradient_spans()).ok());
    REQUIRE(
        (*alone)->ComputeGradients(batch, 1, theirs.value_spans(), theirs.gradient_spans()).ok());
    CHECK(ours.gradients == theirs.gradients);
  }
}

TEST_CASE("a tensor without elements, of too many axes or beyond all memory is refused by name") {
  const auto refused = [](const json& model, std::vector<uint64_t> input,
                          const std::string& expected) {
    Job job = JobFor(model, "mse", 1);
    const absl::Status status =
        BuildKerasProgram(job, SchemaOf(std::move(input), {1}), TestOps()).status();
    INFO(expected << "\n got " << status);
    CHECK(std::string(status.message()).find(expected) != std::string::npos);
  };
  // A layer without channels would divide by zero.
  refused(
      SequentialJson({LayerJson("EinsumDense",
                                {{"name", "e"}, {"equation", "ab,bc->ac"}, {"output_shape", {0}}}),
                      LayerJson("GroupNormalization", {{"name", "g"}, {"groups", -1}})}),
      {3}, "layer \"e\" (EinsumDense): would have no elements, as of shape (0,)");
  std::vector<json> calls = {Call("in")};
  for (int i = 0; i < 100; ++i) calls.push_back(Call("e", i));
  json expand = Named("ExpandDims", "e", {{"axis", 1}}, std::move(calls));
  expand["module"] = "keras.src.ops.numpy";
  refused({{"class_name", "Functional"},
           {"config",
            {{"name", "m"},
             {"layers",
              {Named("InputLayer", "in", {{"batch_shape", {nullptr, 1}}}, json::array()), expand}},
             {"input_layers", {{"in", 0, 0}}},
             {"output_layers", {{"e", 100, 0}}}}}},
          {1}, "layer \"e\" (ExpandDims): would have 65 axes: more than 64");
  // The shape has 2^64 and a few elements; the product overflows to a few.
  refused(SequentialJson({LayerJson("Conv3D", {{"name", "c"},
                                               {"filters", 1},
                                               {"kernel_size", {(1 << 19) + 1, 1, 1}},
                                               {"dilation_rate", {1 << 19, 1, 1}},
                                               {"padding", "same"}}),
                          LayerJson("GlobalMaxPooling3D", json::object())}),
          {1, 8192, 8192, 1}, "layer \"c\" (Conv3D): shape (1, 274877906945, 67108864) is beyond");
}

}  // namespace
}  // namespace paracord
