// Minimal parts of a trainer, for tests.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/workload.h"
#include "worker/parameter_session.h"

namespace paracord {

// A model without variables.
class NoVariables : public GradientProgram {
 public:
  const std::vector<VariableSpec>& variables() const override { return variables_; }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }
  absl::StatusOr<double> ComputeGradients(const Batch&, uint64_t, ConstTensors,
                                          MutableTensors) override {
    return 0.5;
  }
  absl::Status Evaluate(const Batch&, ConstTensors, std::vector<MetricState>&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Column>> Predict(const Batch&, ConstTensors) override {
    return absl::UnimplementedError("no prediction");
  }

 private:
  std::vector<VariableSpec> variables_;
  std::vector<std::string> metric_names_{"loss"};
};

// A feed in which every batch is one equal example.
class OneExample : public BatchFeed {
 public:
  OneExample() { batch.examples = 1; }
  void Start(const DataPlan&) override {}
  absl::StatusOr<const Batch*> Get(const BatchId&, std::span<const BatchId>) override {
    return &batch;
  }

  Batch batch;
};

class NoArrays : public StepArrays {
 public:
  void Prepare() override {}
  ConstTensors values() const override { return {}; }
  MutableTensors gradients() const override { return {}; }
  bool GradientFinite(size_t) const override { return true; }
  bool Encode(size_t) override { return true; }
};

}  // namespace paracord
