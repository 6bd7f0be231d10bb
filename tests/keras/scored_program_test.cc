// The job's loss and metrics of a program's predictions. The test's program predicts its inputs.
#include "keras/scored_program.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "absl/strings/match.h"
#include "common/metric.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

// Predicts its inputs and counts the calls. Evaluates the metrics in `metrics` itself.
class EchoProgram : public GradientProgram {
 public:
  explicit EchoProgram(std::vector<std::string> metrics) : names_(std::move(metrics)) {}
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return names_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t batch_key, ConstTensors,
                                          MutableTensors) override {
    return static_cast<double>(batch_key);
  }
  size_t replicas() const override { return 2; }
  absl::StatusOr<std::vector<double>> ComputeSum(std::span<const KeyedBatch> batches, ConstTensors,
                                                 MutableTensors) override {
    return std::vector<double>(batches.size(), 0.25);
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors) override {
    ++predictions;
    return batch.inputs;
  }
  absl::Status Evaluate(const Batch& batch, ConstTensors,
                        std::vector<MetricState>& states) override {
    while (states[0].values_size() < 2) states[0].add_values(0);
    states[0].set_values(0, states[0].values(0) + 5 * batch.examples);
    states[0].set_values(1, states[0].values(1) + batch.examples);
    return absl::OkStatus();
  }

  int predictions = 0;

 private:
  const std::vector<VariableSpec> variables_;
  const std::vector<std::string> names_;
};

struct ScoredRig {
  explicit ScoredRig(std::vector<std::string> metrics = {}) : own(std::move(metrics)) {
    job.test = DataSpec{};
    schema.inputs = {{"", {2}, {}}};
    schema.targets = {{"", {2}, {}}};
    outputs = {{"", {2}}};
  }

  absl::Status Make() {
    auto echo_program = std::make_unique<EchoProgram>(own);
    echo = echo_program.get();
    ASSIGN_OR_RETURN(program, MakeScoredProgram(job, schema, std::move(echo_program), outputs));
    return absl::OkStatus();
  }

  absl::Status Evaluate(uint32_t examples, std::vector<Floats> inputs, std::vector<Floats> targets,
                        const Floats& weights = {}) {
    Batch batch = schema;
    batch.examples = examples;
    for (size_t i = 0; i < inputs.size(); ++i) batch.inputs[i].values = inputs[i];
    for (size_t i = 0; i < targets.size(); ++i) batch.targets[i].values = targets[i];
    if (!weights.empty()) batch.weights[0].values = weights;
    return program->Evaluate(batch, {}, states);
  }

  double Value(const std::string& name) const {
    const std::vector<std::string>& names = program->metric_names();
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return MetricValue(states.at(i));
    }
    return std::nan("");
  }

  const std::vector<std::string> own;
  Job job;
  Batch schema;
  std::vector<ProgramOutput> outputs;
  EchoProgram* echo = nullptr;
  std::unique_ptr<GradientProgram> program;
  std::vector<MetricState> states;
};

TEST_CASE("loss and metrics of a job are those of what its program predicts, over all batches") {
  ScoredRig rig;
  rig.job.loss = {"mean_squared_error"};
  rig.job.metrics = {{"mean_absolute_error"}};
  REQUIRE(rig.Make().ok());
  CHECK(rig.program->metric_names() == std::vector<std::string>{"loss", "mean_absolute_error"});
  CHECK(rig.program->Outputs() == std::vector<std::string>{" (2,)"});
  REQUIRE(rig.Evaluate(2, {{1, 2, 3, 4}}, {{1, 2, 3, 8}}).ok());
  REQUIRE(rig.Evaluate(1, {{0, 0}}, {{2, 2}}).ok());
  CHECK(rig.Value("loss") == Approx(24.0 / 6));
  CHECK(rig.Value("mean_absolute_error") == Approx(8.0 / 6));
  CHECK(rig.echo->predictions == 2);
  CHECK(rig.program->ComputeGradients({}, 7, {}, {}).value() == 7);
  CHECK(rig.program->replicas() == 2);
  CHECK(rig.program->ComputeSum(std::vector<KeyedBatch>(2), {}, {}).value() ==
        std::vector<double>{0.25, 0.25});
}

TEST_CASE("examples count by their weights in the loss, and in metrics that are weighted") {
  ScoredRig rig;
  rig.schema.weights = {{"", {}, {}}};
  rig.job.loss = {"mean_absolute_error"};
  rig.job.metrics = {{"mean_absolute_error"}, {.name = "mean_squared_error", .weighted = true}};
  REQUIRE(rig.Make().ok());
  REQUIRE(rig.Evaluate(2, {{0, 0, 0, 0}}, {{1, 1, 4, 4}}, {3, 1}).ok());
  CHECK(rig.Value("mean_absolute_error") == Approx(2.5));
  CHECK(rig.Value("mean_squared_error") == Approx((3 * 1 + 1 * 16) / 4.0));
  CHECK(rig.Value("loss") != Approx(2.5));
}

TEST_CASE("a program that evaluates its loss itself predicts for the job's metrics alone") {
  ScoredRig rig({"loss"});
  REQUIRE(rig.Make().ok());
  REQUIRE(rig.Evaluate(2, {{1, 2, 3, 4}}, {{1, 2, 3, 8}}).ok());
  CHECK(rig.Value("loss") == 5);
  CHECK(rig.echo->predictions == 0);
  ScoredRig both({"loss"});
  both.job.metrics = {{"mean_absolute_error"}};
  REQUIRE(both.Make().ok());
  REQUIRE(both.Evaluate(2, {{1, 2, 3, 4}}, {{1, 2, 3, 8}}).ok());
  CHECK(both.Value("loss") == 5);
  CHECK(both.Value("mean_absolute_error") == 1);
}

TEST_CASE("what needs probabilities is no score of logits, unless it says that it takes them") {
  const auto scored = [](const NamedSpec& metric, const Floats& outputs, double* value = nullptr) {
    ScoredRig rig;
    rig.schema.inputs = {{"", {1}, {}}};
    rig.schema.targets = {{"", {1}, {}}};
    rig.outputs = {{"", {1}}};
    rig.job.loss = {"mean_squared_error"};
    rig.job.metrics = {metric};
    const absl::Status made = rig.Make();
    INFO(made);
    REQUIRE(made.ok());
    const absl::Status status = rig.Evaluate(4, {outputs}, {{1, 0, 0, 1}});
    if (value != nullptr) *value = rig.Value(metric.name);
    return std::string(status.message());
  };
  const Floats logits = {.25f, -3, .75f, 2}, shares = {.25f, 0, .75f, 1.000001f};
  for (const std::string name : {"auc", "accuracy", "precision", "recall", "binary_crossentropy"}) {
    CAPTURE(name);
    CHECK(scored({name}, shares).empty());
    CHECK(scored({name}, logits) ==
          "metrics: " + name +
              " is of probabilities, and the program predicts -3 for example 1 of the batch: give "
              "the metric \"from_logits\": true if it predicts logits, or have it predict "
              "probabilities");
    CHECK(scored({name, {{"from_logits", true}}}, logits).empty());
  }
  double value = 0;
  CHECK(scored({"accuracy", {{"from_logits", true}}}, logits, &value).empty());
  CHECK(value == .75);  // 0.25 and 0.75 as logits are above even odds
  CHECK(scored({"recall", {{"from_logits", true}}}, logits, &value).empty());
  CHECK(value == 1);
  CHECK(scored({"recall", {{"thresholds", 0}}}, logits, &value).empty());
  CHECK(value == 1);
  CHECK(scored({"mean_absolute_error"}, logits).empty());
}

TEST_CASE("metrics of several outputs are told apart by their names") {
  ScoredRig rig;
  rig.schema.inputs = {{"a", {2}, {}}, {"b", {3}, {}}};
  rig.schema.targets = {{"b", {}, {}}, {"a", {2}, {}}};
  rig.outputs = {{"a", {2}}, {"b", {3}}};
  rig.job.loss = {.name = "mean_squared_error", .output = "a"};
  rig.job.metrics = {{.name = "accuracy", .output = "#1"}};
  const absl::Status made = rig.Make();
  INFO(made);
  REQUIRE(made.ok());
  CHECK(rig.program->metric_names() == std::vector<std::string>{"loss", "b_accuracy"});
  REQUIRE(rig.Evaluate(2, {{1, 1, 1, 1}, {.1f, .8f, .1f, 1, 0, 0}}, {{1, 2}, {1, 1, 3, 3}}).ok());
  CHECK(rig.Value("loss") == 2);
  CHECK(rig.Value("b_accuracy") == 0.5);
  // A class beyond the output is reported with its record.
  const absl::Status wrong = rig.Evaluate(1, {{1, 1}, {1, 0, 0}}, {{3}, {1, 1}});
  INFO(wrong);
  CHECK(absl::IsInvalidArgument(wrong));
  CHECK(absl::StrContains(wrong.message(), "example 0"));
}

TEST_CASE("what cannot be measured of a program is said before it computes anything") {
  const auto why = [](const std::vector<std::string>& own, const auto& change) {
    ScoredRig rig(own);
    change(rig);
    return std::string(rig.Make().message());
  };
  CHECK(absl::StrContains(why({}, [](ScoredRig&) {}), "loss: is missing"));
  CHECK(absl::StrContains(why({"loss"}, [](ScoredRig& r) { r.job.loss = {"mean_squared_error"}; }),
                          "evaluated by the program itself"));
  CHECK(absl::StrContains(why({"loss"},
                              [](ScoredRig& r) {
                                r.outputs.clear();
                                r.job.metrics = {{"accuracy"}};
                              }),
                          "declares no outputs"));
  CHECK(absl::StrContains(why({"loss"},
                              [](ScoredRig& r) {
                                r.outputs.push_back({"b", {1}});
                                r.job.metrics = {{"accuracy"}};
                              }),
                          "must say of which of the program's 2 outputs"));
  CHECK(absl::StrContains(why({"loss", "mean_absolute_error"},
                              [](ScoredRig& r) { r.job.metrics = {{"mean_absolute_error"}}; }),
                          "twice, or the program evaluates it itself"));
  CHECK(absl::StrContains(why({"loss"},
                              [](ScoredRig& r) {
                                r.job.stop_when = StopWhen{"acuracy", {}, {}};
                                r.job.metrics = {{"accuracy"}};
                              }),
                          "\"accuracy\""));
  CHECK(absl::StrContains(why({"loss"},
                              [](ScoredRig& r) {
                                r.schema.targets.clear();
                                r.job.metrics = {{"accuracy"}};
                              }),
                          "no targets for output"));
}

}  // namespace
}  // namespace paracord
