#include "sim/counting_workload.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/data_plan.h"

namespace paracord {
namespace {

class CountingFeed : public BatchFeed {
 public:
  explicit CountingFeed(const CountingOptions& options) : options_(options) {}

  void Start(const DataPlan& plan) override { plan_ = plan; }

  absl::StatusOr<const Batch*> Get(const BatchId& id, uint32_t) override {
    const uint64_t place = BatchInEpoch(plan_, id.split(), id.batch());
    if (options_.unreadable.contains(place)) {
      return absl::DataLossError(absl::StrCat("batch ", place, " cannot be read"));
    }
    batch_.examples = BatchExamples(plan_, id.split(), id.batch());
    const float weight = options_.nonfinite.contains(place)
                             ? std::numeric_limits<float>::quiet_NaN()
                             : BatchWeight(place);
    batch_.inputs = {{"", {}, std::vector<float>(batch_.examples, weight)}};
    return &batch_;
  }

 private:
  const CountingOptions options_;
  DataPlan plan_;
  Batch batch_;
};

class CountingTest : public DataSource {
 public:
  explicit CountingTest(uint64_t records) : records_(records) {}
  uint64_t records() const override { return records_; }
  std::string fingerprint() const override { return "counting"; }
  const Batch& schema() const override { return schema_; }
  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    batch.examples = static_cast<uint32_t>(records.size());
    batch.inputs = {{"", {}, std::vector<float>(records.size(), 1)}};
    return absl::OkStatus();
  }
  std::string Where(uint64_t record) const override { return absl::StrCat("record ", record); }

 private:
  const uint64_t records_;
  const Batch schema_;
};

class CountingProgram : public GradientProgram {
 public:
  explicit CountingProgram(const CountingOptions& options) {
    for (uint32_t i = 0; i < options.trained + (options.frozen ? 1 : 0); ++i) {
      VariableSpec variable;
      variable.set_name(i < options.trained ? absl::StrCat("counter:", i) : "frozen");
      variable.add_shape(options.rows);
      variable.set_dtype(FLOAT32);
      variable.mutable_initializer()->set_name("zeros");
      variable.set_trainable(i < options.trained);
      variables_.push_back(std::move(variable));
    }
  }

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }

  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t, ConstTensors,
                                          MutableTensors gradients) override {
    const float weight = batch.inputs[0].values[0];
    for (const std::span<float> gradient : gradients) {
      for (size_t row = 0; row < gradient.size(); ++row) {
        gradient[row] = row % 2 == 0 ? -1.0f : -weight;
      }
    }
    return static_cast<double>(weight);
  }

  // "loss" is the mean of the first counter: how many batches the scored parameters have seen.
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override {
    states.resize(metric_names_.size());
    MetricState& loss = states[0];
    while (loss.values_size() < 2) loss.add_values(0);
    const double examples = batch.examples;
    loss.set_values(0, loss.values(0) + examples * static_cast<double>(values[0][0]));
    loss.set_values(1, loss.values(1) + examples);
    return absl::OkStatus();
  }

  absl::StatusOr<Column> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("a counting program predicts nothing");
  }

 private:
  std::vector<VariableSpec> variables_;
  const std::vector<std::string> metric_names_ = {"loss"};
};

}  // namespace

float BatchWeight(uint64_t batch_in_epoch) {
  return static_cast<float>(1 + batch_in_epoch * 7 % 5);
}

Workload MakeCountingWorkload(const CountingOptions& options) {
  Workload workload;
  workload.program = std::make_unique<CountingProgram>(options);
  workload.feed = std::make_unique<CountingFeed>(options);
  if (options.test_records > 0) {
    workload.test = std::make_unique<CountingTest>(options.test_records);
  }
  JobFacts& facts = workload.facts;
  facts.set_records(options.records);
  facts.set_test_records(options.test_records);
  facts.set_fingerprint("counting");
  for (const VariableSpec& variable : workload.program->variables()) {
    *facts.add_variables() = variable;
  }
  for (const std::string& name : workload.program->metric_names()) facts.add_metric_names(name);
  return workload;
}

}  // namespace paracord
