// The Keras model as a GradientProgram: graph, loss and metrics over one device's operations. Made
// by BuildKerasProgram (gradient_program.h; keras_build.cc), run by keras_program.cc, its memory
// planned by keras_memory.cc. Owns the Ops and what lies on the device; used by one thread at a
// time. Knows nothing of preprocessing layers, which have been taken out.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keras/device_copy.h"
#include "keras/gradient_sum.h"
#include "keras/graph.h"
#include "keras/json.h"
#include "keras/model_head.h"
#include "keras/model_summary.h"
#include "keras/part_sum.h"
#include "program/gradient_program.h"
#include "tensor/ops.h"

namespace paracord {

class OwedSum;
class PartRun;

// Of the trace, a line for each of the device's lanes; from 1000 on there are the ps.
constexpr int64_t kDeviceTracks = 900;
constexpr int64_t DeviceTrack(size_t device, int lane) {
  return kDeviceTracks + 4 * static_cast<int64_t>(device) + lane;  // up to 25 devices
}

// Which part of every batch a program computes, and with whom; the whole unless there is a group.
struct BatchPart {
  size_t index = 0, count = 1;
  GroupOps* group = nullptr;
  PartSum* sums = nullptr;
};

class KerasProgram : public GradientProgram {
 public:
  // `before`: what `validate` shows above the graph's layers.
  KerasProgram(const Job& job, std::unique_ptr<Ops> ops, std::unique_ptr<Graph> graph,
               std::vector<LayerRow> before, const BatchPart& part)
      : job_(job),
        accumulate_(std::max<uint32_t>(job.accumulate, 1)),
        part_(part),
        ops_(std::move(ops)),
        graph_(std::move(graph)),
        before_(std::move(before)),
        parameter_copy_(*ops_),
        gradient_copy_(*ops_),
        input_copy_(*ops_),
        target_copy_(*ops_),
        weight_copy_(*ops_) {
    // Parameters come as layers need them, gradients go as they are done.
    callbacks_.needed = [this](size_t variable) { parameter_copy_.Send(variable); };
    callbacks_.final = [this](size_t variable) {
      gradient_copy_.Download(variable, /*awaited=*/there_ != nullptr);
      if (there_ && ops_->host_memory()) there_(variable);
    };
    if (part.group == nullptr) return;
    gradient_sum_.emplace(
        *ops_, *part.group, [this] { part_.sums->Sum(part_.index, {}).status().IgnoreError(); },
        [this](size_t variable) {
          if (part_.index == 0) gradient_copy_.Download(variable, /*awaited=*/there_ != nullptr);
        });
    callbacks_.final = [this](size_t variable) { gradient_sum_->Final(variable); };
  }

  // `input_columns`: of the schema's inputs, for each input of the graph.
  absl::Status Init(const ModelSpec& model, const Batch& schema, std::vector<size_t> input_columns,
                    Problems& problems);

  const std::vector<VariableSpec>& variables() const override { return graph_->variables(); }
  bool host_memory() const override { return ops_->host_memory(); }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }

  // As ComputeGradients does first.
  absl::Status CheckTrainingBatch(const Batch& batch) const {
    return CheckBatch(batch, /*with_targets=*/true);
  }
  // Of a part, as in gradient_sum.h.
  void HoldBackSums(bool held) { gradient_sum_->HoldBack(held); }
  // False: it failed before it had its part in all that others wait for.
  bool part_ended() const { return !gradient_sum_.has_value() || gradient_sum_->ended(); }

  // Of a part: its part of the loss, and the whole batch's gradients from the first part.
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  // Of a part: states whose sums over the parts are the batch's; some may have no values.
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override;
  std::string Summary() const override {
    std::vector<LayerRow> rows = before_;
    for (LayerRow& row : graph_->Describe()) rows.push_back(std::move(row));
    return SummaryOf(rows);
  }
  std::string Doubt(const Batch& batch) const override {
    std::string doubt;  // of the targets alone: preprocessing changes nothing of them
    for (const ModelHead& head : heads_) {
      if (doubt.empty()) doubt = LabelDoubt(head, batch);
    }
    return doubt;
  }
  std::string Memory() const override;
  int64_t MultiplyAdds() const override {
    int64_t all = 0;
    for (const LayerRow& row : graph_->Describe()) all += row.training_multiply_adds;
    return all;
  }

 private:
  friend class OwedSum;
  friend class PartRun;
  // Where the memory is not the host's: finds out what is needed and takes it, before anything is
  // computed. RESOURCE_EXHAUSTED says of what there is too much.
  absl::Status PlanMemory(const Batch& schema);
  absl::Status Rehearse(const Batch& schema);
  absl::Status PrepareAnother();
  std::vector<MemoryRow> MemoryRows() const;
  // A batch is computed in slices; those of [begin, end) here.
  struct Slices {
    int64_t all = 1, begin = 0, end = 1;
    int64_t count() const { return end - begin; }
  };
  int64_t SliceCount() const { return accumulate_ * static_cast<int64_t>(part_.count); }
  Slices OwnSlices(const Batch& batch) const;
  bool SumsDivisors() const;
  // Of the usual batch, computed at a time.
  int64_t SliceExamples() const {
    return std::max<int64_t>((job_.batch + SliceCount() - 1) / SliceCount(), 1);
  }
  absl::Status ComputeSlice(const Batch& batch, uint64_t key, const Slices& slices, int64_t slice,
                            std::vector<double>& divisors, PendingSum& loss);
  absl::Status CheckBatch(const Batch& batch, bool with_targets) const;
  absl::Status CheckIds(const Batch& batch) const;
  absl::Status BindParameters(ConstTensors values);
  absl::Status BindGradients(MutableTensors gradients);
  absl::Status BindBatch(const Batch& batch, bool with_targets);
  double NanUnlessFinite(const Batch& batch) const;
  void HideRows(const Batch& batch, std::vector<float>& values) const;
  // A run over examples [first, first + count) of the batch.
  GraphCall Slice(const Batch& batch, int64_t first, int64_t count, uint64_t key);
  // On the host, of the call's examples; null: there is none.
  absl::StatusOr<const float*> Mask(const ModelHead& head, int64_t examples);
  // By what the sum of a head's losses over all rows of a batch is to be divided.
  absl::StatusOr<std::vector<double>> Divisors(const Batch& batch, uint64_t key,
                                               const Slices& slices, bool training);
  absl::Status HeadLoss(size_t index, const Batch& batch, const GraphCall& call, double each,
                        bool gradient, double* sum);
  absl::Status AddMetrics(const ModelHead& head, const Batch& batch, const GraphCall& call,
                          std::vector<MetricState>& to, size_t& at);

  const Job job_;
  const int64_t accumulate_;
  const BatchPart part_;
  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Graph> graph_;  // before ops_ goes
  const std::vector<LayerRow> before_;
  std::vector<Column> inputs_schema_;
  std::vector<size_t> input_columns_;  // of each input of the graph
  std::vector<ModelHead> heads_;
  std::vector<std::string> output_names_;
  std::vector<std::string> metric_names_{"loss"};
  std::vector<MemoryRow> memory_;  // of the plan
  bool rehearsing_ = false;
  bool owes_sum_ = false;         // to the other parts of the batch
  mutable bool doubted_ = false;  // a doubt is said once
  MemoryPlan plan_;
  // Of a run. Pointers are of the device.
  DeviceCopy parameter_copy_, gradient_copy_, input_copy_, target_copy_, weight_copy_;
  std::optional<GradientSum> gradient_sum_;  // of a part
  VariableCallbacks callbacks_;
  std::function<void(size_t)> there_;
  std::vector<const float*> batch_inputs_, batch_targets_;  // of the whole batch
  std::vector<const float*> inputs_, parameters_;
  std::vector<float*> gradients_;
  std::vector<float> weights_, mask_, output_;
};

}  // namespace paracord
