#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/files.h"
#include "common/metric.h"
#include "keras/build.h"
#include "tests/keras/graph_json.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

json Mlp() {
  return SequentialJson({LayerJson("Flatten", {{"name", "flatten"}}),
                         LayerJson("Dense", {{"units", 16}, {"activation", "relu"}}),
                         LayerJson("Dense", {{"units", 3}, {"activation", "softmax"}})});
}

json Cnn() {
  return SequentialJson(
      {LayerJson("InputLayer", {{"batch_shape", {nullptr, 8, 8, 1}}}),
       LayerJson("Conv2D", {{"filters", 8}, {"kernel_size", {3, 3}}, {"activation", "relu"}}),
       LayerJson("MaxPooling2D", {{"pool_size", {2, 2}}}), LayerJson("Flatten", json::object()),
       LayerJson("Dropout", {{"rate", 0.1}}),
       LayerJson("Dense", {{"units", 3}, {"activation", "softmax"}})});
}

// Images of class 0 are dark. Class 1 has a bright left half, class 2 a bright right half.
Batch Halves(uint32_t examples, uint32_t seed) {
  Batch batch = RandomBatch(SchemaOf({8, 8}, {}), examples, 3, seed);
  for (uint32_t e = 0; e < examples; ++e) {
    const auto label = static_cast<int>(batch.targets[0].values[e]);
    for (uint32_t i = 0; i < 64; ++i) {
      if (label == 1 + static_cast<int>(i % 8 / 4)) batch.inputs[0].values[e * 64 + i] += 1.f;
    }
  }
  return batch;
}

double Accuracy(GradientProgram& program, const Variables& variables) {
  std::vector<MetricState> states;
  for (uint32_t seed = 100; seed < 104; ++seed) {
    REQUIRE(program.Evaluate(Halves(50, seed), variables.value_spans(), states).ok());
  }
  REQUIRE(states.size() == 2);
  REQUIRE(states[1].values(1) == 200);
  return MetricValue(states[1]);
}

TEST_CASE("an MLP and a CNN learn a small problem") {
  for (const json& model : {Mlp(), Cnn()}) {
    Job job = JobFor(model, "sparse_categorical_crossentropy", 32);
    job.metrics.push_back({"accuracy"});
    auto program = BuildKerasProgram(job, SchemaOf({8, 8}, {}), TestOps());
    INFO(program.status());
    REQUIRE(program.ok());
    Variables variables(**program);
    variables.Initialise(7);
    const double before = Accuracy(**program, variables);
    double first = 0, last = 0;
    for (uint32_t step = 0; step < 120; ++step) {
      const auto loss = (*program)->ComputeGradients(
          Halves(32, step), step, variables.value_spans(), variables.gradient_spans());
      REQUIRE(loss.ok());
      (step == 0 ? first : last) = *loss;
      variables.Descend(0.1f);
    }
    CHECK(before < 0.7);
    CHECK(last < first / 2);
    CHECK(Accuracy(**program, variables) > 0.95);
  }
}

TEST_CASE("training gives the metrics of its own predictions, whatever slices it computes in") {
  // The loss takes the softmax's logits, so training would otherwise not compute the softmax.
  for (const uint32_t accumulate : {1, 3}) {
    CAPTURE(accumulate);
    Job job = JobFor(Mlp(), "sparse_categorical_crossentropy", 32);
    job.accumulate = accumulate;
    job.metrics.push_back({"accuracy"});
    job.metrics.push_back({"sparse_categorical_crossentropy"});
    auto program = BuildKerasProgram(job, SchemaOf({8, 8}, {}), TestOps());
    INFO(program.status());
    REQUIRE(program.ok());
    Variables variables(**program);
    variables.Initialise(7);
    const Batch batch = Halves(32, 1);
    std::vector<MetricState> scored;
    CHECK((*program)->TakeTrainingMetrics().empty());
    for (int step = 0; step < 2; ++step) {  // nothing of the previous step is added up
      REQUIRE((*program)
                  ->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
                  .ok());
      if (step == 0) continue;
      const std::vector<MetricState> trained = (*program)->TakeTrainingMetrics();
      REQUIRE(trained.size() == 3);
      REQUIRE((*program)->Evaluate(batch, variables.value_spans(), scored).ok());
      CHECK(trained[0].values_size() == 0);
      for (size_t m = 1; m < 3; ++m) {
        CHECK(trained[m].ShortDebugString() == scored[m].ShortDebugString());
      }
    }
    CHECK((*program)->TakeTrainingMetrics().empty());  // metrics can be taken once
  }
}

TEST_CASE("a Normalization has numbers of its own along each of its axes") {
  const auto out = [](const json& axis, const json& mean, const json& variance) {
    const Job job = JobFor(
        SequentialJson(
            {LayerJson("Normalization", {{"axis", axis}, {"mean", mean}, {"variance", variance}})}),
        "mse", 2);
    Batch batch = SchemaOf({2, 1, 2}, {2, 1, 2});
    const auto program = BuildKerasProgram(job, batch, TestOps());
    INFO(program.status());
    REQUIRE(program.ok());
    batch.examples = 2;
    batch.inputs[0].values = {1, 2, 3, 4, 5, 6, 7, 8};
    batch.targets[0].values.resize(8);
    const auto columns = (*program)->Predict(batch, {});
    REQUIRE(columns.ok());
    return columns->at(0).values;
  };
  // Keras writes mean and variance with all axes. An axis that the numbers do not depend on has
  // size 1.
  CHECK(out({1, 3}, {{{{1, 2}}, {{3, 4}}}}, {{{{1, 4}}, {{16, 64}}}}) ==
        std::vector<float>{0, 0, 0, 0, 4, 2, 1, 0.5});
  CHECK(out({1, 2, 3}, {{{{1, 2}}, {{3, 4}}}}, {{{{1, 4}}, {{16, 64}}}}) ==
        std::vector<float>{0, 0, 0, 0, 4, 2, 1, 0.5});
  CHECK(out(nullptr, 1, 4) == std::vector<float>{0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5});
}

TEST_CASE("a focal loss of logits takes the outputs for logits, be they a sigmoid's") {
  const auto loss = [](std::vector<json> layers, bool from_logits) {
    Job job = JobFor(SequentialJson(std::move(layers)), "binary_focal_crossentropy", 8);
    job.loss.options = {{"from_logits", from_logits}};
    const Batch schema = SchemaOf({4}, {2});
    auto program = BuildKerasProgram(job, schema, TestOps());
    INFO(program.status());
    REQUIRE(program.ok());
    Variables variables(**program);
    variables.Randomise(3);
    const auto value = (*program)->ComputeGradients(
        RandomBatch(schema, 8, 2, 1), 1, variables.value_spans(), variables.gradient_spans());
    REQUIRE(value.ok());
    return *value;
  };
  const json dense = LayerJson("Dense", {{"units", 2}, {"activation", "sigmoid"}});
  const json sigmoid = LayerJson("Activation", {{"activation", "sigmoid"}});
  CHECK(loss({dense}, true) == Approx(loss({dense, sigmoid}, false)));
}

TEST_CASE(
    "a NaN in an input is seen in the loss and in the prediction, behind ReLU and pooling too") {
  const float bad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  for (const json& model : {Mlp(), Cnn()}) {
    Job job = JobFor(model, "sparse_categorical_crossentropy", 8);
    job.metrics = {{"accuracy"}};
    auto program = BuildKerasProgram(job, SchemaOf({8, 8}, {}), TestOps());
    REQUIRE(program.ok());
    Variables variables(**program);
    variables.Initialise(7);
    Batch batch = Halves(8, 1);
    std::vector<MetricState> states;
    REQUIRE((*program)->Evaluate(batch, variables.value_spans(), states).ok());
    CHECK(std::isfinite(MetricValue(states[0])));
    batch.inputs[0].values[3 * 64 + 9] = bad;  // in example 3
    REQUIRE((*program)->Evaluate(batch, variables.value_spans(), states).ok());
    CHECK(std::isnan(MetricValue(states[0])));
    CHECK(states[1].values(1) == 16);  // the prediction counts nevertheless
    const auto predicted = (*program)->Predict(batch, variables.value_spans());
    REQUIRE(predicted.ok());
    const std::vector<float>& values = (*predicted)[0].values;
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK(std::isnan(values[i]) == (i / 3 == 3));
    }
    const auto loss =
        (*program)->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans());
    REQUIRE(loss.ok());
    CHECK(std::isnan(*loss));  // gradients may hide the NaN, if the layers that read it are frozen
  }
}

TEST_CASE("the example jobs can be read and their models built for the shape of their data") {
  PosixFiles files;
  for (const char* name : {"cnn", "mlp"}) {
    const auto job = ReadJobFile(
        files, std::string(PARACORD_SOURCE_DIR) + "/examples/fashion-mnist/" + name + ".json");
    INFO(job.status());
    REQUIRE(job.ok());
    const auto program = BuildKerasProgram(*job, SchemaOf({28, 28}, {}), TestOps());
    INFO(program.status());
    REQUIRE(program.ok());
    CHECK((*program)->metric_names() == std::vector<std::string>{"loss", "accuracy"});
  }
}

TEST_CASE(
    "a step's multiply-adds are those forward, of the variables and of inputs that want them") {
  json self = Call("in");
  self["args"].push_back(self["args"][0]);
  const json model = {
      {"class_name", "Functional"},
      {"config",
       {{"name", "m"},
        {"layers",
         {Named("InputLayer", "in", {{"batch_shape", {nullptr, 4, 6}}}, json::array()),
          Named("MultiHeadAttention", "mha", {{"num_heads", 2}, {"key_dim", 3}}, {self}),
          Named("Dense", "dense", {{"units", 5}}, {Call("mha")}),
          Named("Flatten", "flat", json::object(), {Call("dense")}),
          Named("Dense", "frozen", {{"units", 3}, {"trainable", false}}, {Call("flat")})}},
        {"input_layers", {{"in", 0, 0}}},
        {"output_layers", {{"frozen", 0, 0}}}}}};
  const Job job = JobFor(model, "sparse_categorical_crossentropy", 8);
  const auto program = BuildKerasProgram(job, SchemaOf({4, 6}, {}), TestOps());
  REQUIRE(program.ok());
  // Two heads: four projections of 4 steps, from 6 to 3 or back, and two products of 4 x 4 x 3.
  const int64_t attention = 2 * (4 * 4 * 6 * 3 + 2 * 4 * 4 * 3);
  const int64_t dense = 4 * 6 * 5, frozen = 20 * 3;
  CHECK((*program)->MultiplyAdds() == 2 * attention + 3 * dense + 2 * frozen);
}

TEST_CASE("the loss is taken of the logits of a softmax or a sigmoid, as Keras does") {
  const Batch schema = SchemaOf({4}, {3});
  Batch batch = RandomBatch(schema, 5, 0, 1);
  for (float& target : batch.targets[0].values) target = target > 0 ? 1.f : 0.f;
  const auto loss_of = [&](const char* loss, const json& options, const char* activation,
                           const std::vector<json>& more) {
    std::vector<json> layers = {
        LayerJson("Dense", {{"name", "d"}, {"units", 3}, {"activation", activation}})};
    layers.insert(layers.end(), more.begin(), more.end());
    Job job = JobFor(SequentialJson(layers), loss);
    job.loss.options = options;
    const auto program = BuildKerasProgram(job, schema, TestOps()).value();
    Variables variables(*program);
    variables.Randomise(1);
    return program->ComputeGradients(batch, 1, variables.value_spans(), variables.gradient_spans())
        .value();
  };
  const json none = json::object(), logits = {{"from_logits", true}};
  const json identity = LayerJson("Activation", {{"name", "i"}, {"activation", "linear"}});
  const json dropout = LayerJson("Dropout", {{"name", "o"}, {"rate", 0}});
  const json relu = LayerJson("Activation", {{"name", "r"}, {"activation", "relu"}});
  for (const char* loss : {"categorical_crossentropy", "binary_crossentropy"}) {
    const double wanted = loss_of(loss, logits, "linear", {});
    for (const char* activation : {"softmax", "sigmoid"}) {
      CHECK(loss_of(loss, none, activation, {}) == Approx(wanted));
      CHECK(loss_of(loss, logits, activation, {}) == Approx(wanted));
      CHECK(loss_of(loss, none, activation, {identity, dropout}) == Approx(wanted));
    }
  }
  // After another activation the loss sees no logits.
  CHECK(loss_of("binary_crossentropy", none, "softmax", {relu}) !=
        Approx(loss_of("binary_crossentropy", none, "softmax", {})));
}

TEST_CASE("metrics of one name are told apart as Keras does") {
  Job job = JobFor(Mlp(), "sparse_categorical_crossentropy", 8);
  job.metrics = {{"accuracy"}, {"accuracy"}, {"accuracy"}, {"accuracy"}};
  job.metrics[2].weighted = job.metrics[3].weighted = true;
  const auto program = BuildKerasProgram(job, SchemaOf({8, 8}, {}), TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  CHECK((*program)->metric_names() == std::vector<std::string>{"loss", "accuracy", "accuracy_1",
                                                               "weighted_accuracy",
                                                               "weighted_accuracy_1"});
}

TEST_CASE("a layer, an optimizer or an initializer that is not Keras' own is not taken for it") {
  json model = Mlp();
  json& layer = model["config"]["layers"][1];
  layer["module"] = "__main__";
  layer["registered_name"] = "pkg>Dense";
  const auto program = BuildKerasProgram(JobFor(model, "sparse_categorical_crossentropy", 8),
                                         SchemaOf({8, 8}, {}), TestOps());
  CHECK(std::string(program.status().message()).find("pkg>Dense") != std::string::npos);
  layer.erase("registered_name");
  layer["module"] = "keras.layers";
  layer["config"]["kernel_initializer"] = {
      {"class_name", "Zeros"}, {"config", json::object()}, {"registered_name", "pkg>Zeros"}};
  const auto second = BuildKerasProgram(JobFor(model, "sparse_categorical_crossentropy", 8),
                                        SchemaOf({8, 8}, {}), TestOps());
  CHECK(std::string(second.status().message()).find("pkg>Zeros") != std::string::npos);
}

TEST_CASE("initializers by variance scaling are read with their words") {
  json model = Mlp();
  json& initializer = model["config"]["layers"][1]["config"]["kernel_initializer"];
  const auto built = [&](const char* mode, const char* distribution) {
    initializer = {{"class_name", "VarianceScaling"},
                   {"config",
                    {{"scale", 2.5},
                     {"mode", mode},
                     {"distribution", distribution},
                     {"seed", nullptr},
                     {"input_axes", nullptr}}}};
    return BuildKerasProgram(JobFor(model, "sparse_categorical_crossentropy", 8),
                             SchemaOf({8, 8}, {}), TestOps());
  };
  const auto program = built("fan_out", "untruncated_normal");
  REQUIRE(program.ok());
  const Initializer& read = (*program)->variables()[0].initializer();
  CHECK(read.name() == "variance_scaling");
  CHECK(read.options().at("scale") == 2.5);
  CHECK(read.options().at("mode") == 1);
  CHECK(read.options().at("distribution") == 1);
  CHECK(built("fan_avg", "uniform").ok());
  CHECK(std::string(built("fan_sum", "uniform").status().message()).find("\"fan_sum\"") !=
        std::string::npos);
}

TEST_CASE("a constant initial value may be an array of one number") {
  json model = Mlp();
  json& value = model["config"]["layers"][1]["config"]["bias_initializer"];
  const auto built = [&](const json& constant) {
    value = {{"class_name", "Constant"}, {"config", {{"value", constant}}}};
    return BuildKerasProgram(JobFor(model, "sparse_categorical_crossentropy", 8),
                             SchemaOf({8, 8}, {}), TestOps());
  };
  const json packed = {{"class_name", "__numpy__"},
                       {"config", {{"value", {1.5}}, {"dtype", "float64"}}}};
  for (const json& constant : {json(1.5), json{1.5}, packed}) {
    INFO(constant);
    const auto program = built(constant);
    REQUIRE(program.ok());
    CHECK((*program)->variables()[1].initializer().options().at("value") == 1.5);
  }
  CHECK(std::string(built({1.5, 2}).status().message()).find("\"value\" of Constant") !=
        std::string::npos);
}

TEST_CASE("kernels of more than two axes begin as wide as those of a Dense that does the same") {
  const json model = SequentialJson({LayerJson("EinsumDense", {{"equation", "abc,cde->abde"},
                                                               {"output_shape", {nullptr, 4, 6}},
                                                               {"bias_axes", "e"}}),
                                     LayerJson("Dense", {{"units", 2}})});
  const auto program =
      BuildKerasProgram(JobFor(model, "mse"), SchemaOf({5, 8}, {5, 4, 2}), TestOps());
  INFO(program.status());
  REQUIRE(program.ok());
  const auto& kernel = (*program)->variables()[0].initializer().options();
  CHECK(kernel.at("fan_in") == 8);
  CHECK(kernel.at("fan_out") == 24);
  for (const size_t other : {1, 2}) {  // zeros; a matrix
    CHECK((*program)->variables()[other].initializer().options().empty());
  }
}

TEST_CASE("stop_when must name something that is measured") {
  Job job = JobFor(SequentialJson({LayerJson("Dense", {{"units", 2}})}), "mse");
  job.metrics = {{"mean_absolute_error"}};
  job.stop_when = StopWhen{"mean_absolute_error", std::nullopt, 0.5};
  CHECK(BuildKerasProgram(job, SchemaOf({4}, {2}), TestOps()).ok());
  job.stop_when->metric = "nope_mean_absolute_error";
  CHECK(BuildKerasProgram(job, SchemaOf({4}, {2}), TestOps()).status().message() ==
        "stop_when.metric: \"nope_mean_absolute_error\" is not supported (did you mean "
        "\"mean_absolute_error\"?); supported: loss, mean_absolute_error");
}

TEST_CASE("an evaluation in slices counts the steps that its own masks leave") {
  // Training drops whole steps, and dropped steps are masked.
  const json model =
      SequentialJson({LayerJson("Dropout", {{"rate", 0.5}, {"noise_shape", {nullptr, 6, 1}}}),
                      LayerJson("Masking", json::object()), LayerJson("Dense", {{"units", 2}})});
  const auto loss = [&](uint32_t accumulate) {
    Job job = JobFor(model, "mse", 8);
    job.accumulate = accumulate;
    const Batch schema = SchemaOf({6, 3}, {6, 2});
    const auto program = BuildKerasProgram(job, schema, TestOps()).value();
    Variables variables(*program);
    variables.Randomise(1);
    std::vector<MetricState> states;
    REQUIRE(program->Evaluate(RandomBatch(schema, 8, 0, 1), variables.value_spans(), states).ok());
    return MetricValue(states[0]);
  };
  CHECK(loss(4) == Approx(loss(1)));
}

}  // namespace
}  // namespace paracord
