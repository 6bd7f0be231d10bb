#include "keras/replicas.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/metric.h"
#include "common/status_macros.h"
#include "keras/gradient_sum.h"
#include "keras/keras_program.h"
#include "keras/part_sum.h"

namespace paracord {
namespace {

absl::Status Of(size_t part, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("GPU ", part, ": ", status.message()));
}

class Replicas : public GradientProgram {
 public:
  Replicas(std::unique_ptr<PartSum> sums, std::vector<ReplicaPart> parts, uint32_t batch)
      : sums_(std::move(sums)), parts_(std::move(parts)), batch_(batch) {}

  const std::vector<VariableSpec>& variables() const override { return first().variables(); }
  const std::vector<std::string>& metric_names() const override { return first().metric_names(); }
  std::string Summary() const override { return first().Summary(); }
  std::string Doubt(const Batch& batch) const override { return first().Doubt(batch); }
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override {
    return first().LookAt(batch, counts);
  }
  int64_t MultiplyAdds() const override { return first().MultiplyAdds(); }
  bool host_memory() const override { return first().host_memory(); }
  std::string Memory() const override {
    return absl::StrCat(parts_.size(),
                        " GPUs compute a part of each batch: the effective batch of ",
                        "an update is ", batch_, " examples; on each, ", first().Memory());
  }

  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override {
    return first().RowsOf(batch);
  }
  void UseRows(std::shared_ptr<const TableRows> rows) override {
    for (const ReplicaPart& part : parts_) part.program->UseRows(rows);
  }
  void OnGradient(std::function<void(size_t)> there) override {
    first().OnGradient(std::move(there));
  }
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  std::vector<MetricState> TakeTrainingMetrics() override;
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override {
    alike_ = 0;
    return first().Predict(batch, values);
  }

 private:
  KerasProgram& first() const { return *parts_[0].program; }
  void MergeParts(const std::vector<std::vector<MetricState>>& parts,
                  std::vector<MetricState>& states) const;
  // Runs on all parts, each in its own thread, the first in the calling thread.
  void OnAll(const std::function<void(size_t part)>& run) const {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < parts_.size(); ++i) threads.emplace_back([&run, i] { run(i); });
    run(0);
  }
  void Abort() {
    sums_->Abort();
    for (const ReplicaPart& part : parts_) part.group->Abort();
  }

  const std::unique_ptr<PartSum> sums_;
  const std::vector<ReplicaPart> parts_;
  const uint32_t batch_;
  absl::Status lost_;      // set for good once the group is lost
  uint32_t examples_ = 0;  // batch size of the last step
  int alike_ = 0;          // consecutive successful steps of that size
};

absl::StatusOr<double> Replicas::ComputeGradients(const Batch& batch, uint64_t batch_key,
                                                  ConstTensors values, MutableTensors gradients) {
  RETURN_IF_ERROR(lost_);
  RETURN_IF_ERROR(first().CheckTrainingBatch(batch));
  if (std::exchange(examples_, batch.examples) != batch.examples) alike_ = 0;
  const int alike = std::exchange(alike_, 0);
  for (const ReplicaPart& part : parts_) part.program->UseSums({.held = alike < kNewSteps});
  std::vector<absl::StatusOr<double>> losses(parts_.size(), 0.0);
  std::atomic<int> culprit = -1;  // the failed replica that left others waiting
  OnAll([&](size_t i) {
    KerasProgram& program = *parts_[i].program;
    losses[i] = program.ComputeGradients(batch, batch_key, values, gradients);
    if (losses[i].ok()) return;
    if (program.part_ended() && !absl::IsDataLoss(losses[i].status())) return;
    int none = -1;
    if (culprit.compare_exchange_strong(none, static_cast<int>(i))) Abort();
  });
  if (culprit >= 0) {
    const auto part = static_cast<size_t>(culprit);
    lost_ = absl::DataLossError(Of(part, losses[part].status()).message());
  }
  RETURN_IF_ERROR(lost_);
  double loss = 0;
  absl::Status failed;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (losses[i].ok()) {
      loss += *losses[i];
    } else if (failed.ok()) {
      failed = Of(i, losses[i].status());
    }
  }
  RETURN_IF_ERROR(failed);
  alike_ = std::min(alike + 1, kNewSteps);
  return loss;
}

absl::Status Replicas::Evaluate(const Batch& batch, ConstTensors values,
                                std::vector<MetricState>& states) {
  RETURN_IF_ERROR(lost_);
  RETURN_IF_ERROR(first().CheckTrainingBatch(batch));
  alike_ = 0;
  std::vector<absl::Status> done(parts_.size());
  std::vector<std::vector<MetricState>> own(parts_.size());
  OnAll([&](size_t i) { done[i] = parts_[i].program->Evaluate(batch, values, own[i]); });
  absl::Status failed;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const bool lost = absl::IsDataLoss(done[i]) && !absl::IsDataLoss(failed);
    if (lost || (failed.ok() && !done[i].ok())) failed = Of(i, done[i]);
  }
  RETURN_IF_ERROR(failed);
  MergeParts(own, states);
  return absl::OkStatus();
}

std::vector<MetricState> Replicas::TakeTrainingMetrics() {
  std::vector<std::vector<MetricState>> own;
  for (const ReplicaPart& part : parts_) own.push_back(part.program->TakeTrainingMetrics());
  std::vector<MetricState> states;
  MergeParts(own, states);
  return states;
}

// Adds the parts' states; some may be empty.
void Replicas::MergeParts(const std::vector<std::vector<MetricState>>& parts,
                          std::vector<MetricState>& states) const {
  states.resize(metric_names().size());
  for (const std::vector<MetricState>& each : parts) {
    for (size_t m = 0; m < states.size() && m < each.size(); ++m) {
      if (each[m].values_size() > 0) MergeMetric(each[m], states[m]);
    }
  }
}

}  // namespace

std::unique_ptr<GradientProgram> MakeReplicas(std::unique_ptr<PartSum> sums,
                                              std::vector<ReplicaPart> parts, uint32_t batch) {
  return std::make_unique<Replicas>(std::move(sums), std::move(parts), batch);
}

}  // namespace paracord
