// The Keras model as a GradientProgram: graph, losses and metrics over one device's operations.
// Made by BuildKerasProgram (build.cc); memory_report.cc plans its memory. It owns the Ops and
// everything on the device; used by one thread at a time. Preprocessing layers have been split off
// before.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keras/device_copy.h"
#include "keras/gradient_sum.h"
#include "keras/graph.h"
#include "keras/json.h"
#include "keras/model_head.h"
#include "keras/model_summary.h"
#include "keras/part_sum.h"
#include "keras/program_inputs.h"
#include "program/gradient_program.h"
#include "tensor/ops.h"

namespace paracord {

class OwedSum;
class PartRun;
class StagePart;

// The rows of a trace for the device's lanes. Rows from 1000 on are those of the ps.
constexpr int64_t kDeviceTracks = 900;
constexpr int64_t DeviceTrack(size_t device, int lane) {
  return kDeviceTracks + 4 * static_cast<int64_t>(device) + lane;  // up to 25 devices
}

// The part of every batch that a program computes, and its group; the whole batch if there is no
// group. Or the stage of the model that it computes, of so many (keras/stage_part.h).
struct BatchPart {
  size_t index = 0, count = 1;
  GroupOps* group = nullptr;
  PartSum* sums = nullptr;
  size_t stage = 0, stages = 1;
};

class KerasProgram : public GradientProgram {
 public:
  // `before` has the rows that `validate` shows above the graph's layers.
  KerasProgram(const Job& job, std::unique_ptr<Ops> ops, std::unique_ptr<Graph> graph,
               std::vector<LayerRow> before, const BatchPart& part)
      : job_(job),
        accumulate_(std::max<uint32_t>(job.accumulate, 1)),
        part_(part),
        ops_(std::move(ops)),
        graph_(std::move(graph)),
        before_(std::move(before)),
        copies_(*ops_) {
    // Each parameter is uploaded when a layer first needs it, each gradient downloaded when it is
    // final.
    callbacks_.needed = [this](size_t variable) { copies_.parameters.Send(variable); };
    callbacks_.final = [this](size_t variable) {
      copies_.gradients.Download(variable, /*awaited=*/there_ != nullptr);
      if (there_ && ops_->host_memory()) there_(variable);
    };
    if (part.group == nullptr) return;
    gradient_sum_.emplace(
        *ops_, *part.group, [this] { part_.sums->Sum(part_.index, {}).status().IgnoreError(); },
        [this](size_t variable) {
          if (part_.index == 0) copies_.gradients.Download(variable, /*awaited=*/there_ != nullptr);
        });
    callbacks_.final = [this](size_t variable) { gradient_sum_->Final(variable); };
  }

  // `input_columns` maps each input of the graph to a column of the schema's inputs.
  absl::Status Init(const ModelSpec& model, const Batch& schema, std::vector<size_t> input_columns,
                    Problems& problems);

  const std::vector<VariableSpec>& variables() const override { return graph_->variables(); }
  bool host_memory() const override { return ops_->host_memory(); }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }

  // Does the checks with which ComputeGradients begins.
  absl::Status CheckTrainingBatch(const Batch& batch) const {
    return CheckBatch(batch, /*with_targets=*/true);
  }
  // Does the checks with which Predict begins.
  absl::Status CheckInputs(const Batch& batch) const {
    return CheckBatch(batch, /*with_targets=*/false);
  }
  // Calls GradientSum::HoldBack; only for a program that computes a part.
  void HoldBackSums(bool held) { gradient_sum_->HoldBack(held); }
  // False if the program failed before it took part in all sums that other parts wait for.
  bool part_ended() const { return !gradient_sum_.has_value() || gradient_sum_->ended(); }

  // A program that computes a part returns its part of the loss; the first part's gradients are
  // those of the whole batch.
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  // A program that computes a part takes the states of its part.
  std::vector<MetricState> TakeTrainingMetrics() override {
    return std::exchange(training_metrics_, {});
  }
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  // A program that computes a part adds states whose sums over all parts are the batch's; some may
  // be empty.
  absl::Status Evaluate(const Batch& batch, ConstTensors values,
                        std::vector<MetricState>& states) override;
  absl::StatusOr<std::vector<Column>> Predict(const Batch& batch, ConstTensors values) override;
  absl::Status LookAt(const Batch& batch, LookupCounts& counts) override;
  absl::StatusOr<std::shared_ptr<const TableRows>> RowsOf(const Batch& batch) override;
  void UseRows(std::shared_ptr<const TableRows> rows) override;
  std::string Summary() const override {
    std::vector<LayerRow> rows = before_;
    for (LayerRow& row : graph_->Describe()) rows.push_back(std::move(row));
    return SummaryOf(rows) + StagesSummary();
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
  friend class StagePart;
  // The stages into which the job's model is cut, for people; empty if it is not.
  std::string StagesSummary() const;
  // If the program computes a stage of the model: keeps the graph to that.
  absl::Status KeepToStage();
  absl::Status PrepareUsual();
  // If the device has memory of its own: finds out how much is needed and reserves it, before
  // anything is computed. RESOURCE_EXHAUSTED says what needs the most.
  absl::Status PlanMemory(const Batch& schema);
  absl::Status Rehearse(const Batch& schema);
  absl::Status PrepareAnother();
  // Returns the floats of a variable in the largest batch of training.
  int64_t FloatsMost(size_t variable) const;
  std::vector<MemoryRow> MemoryRows() const;
  // A batch is computed in `all` slices, of which this program computes [begin, end).
  struct Slices {
    int64_t all = 1, begin = 0, end = 1;
    int64_t count() const { return end - begin; }
  };
  int64_t SliceCount() const { return accumulate_ * static_cast<int64_t>(part_.count); }
  Slices OwnSlices(const Batch& batch) const;
  bool SumsDivisors() const;
  // The number of examples in a slice of the usual batch.
  int64_t SliceExamples() const {
    return std::max<int64_t>((job_.batch + SliceCount() - 1) / SliceCount(), 1);
  }
  absl::Status ComputeSlice(const Batch& batch, uint64_t key, const Slices& slices, int64_t slice,
                            std::vector<double>& divisors, PendingSum& loss);
  absl::Status CheckBatch(const Batch& batch, bool with_targets) const;
  absl::Status BindParameters(ConstTensors values);
  absl::Status BindGradients(MutableTensors gradients);
  absl::Status BindBatch(const Batch& batch, bool with_targets);
  // The arguments for a run over examples [first, first + count) of the batch.
  GraphCall Slice(const Batch& batch, int64_t first, int64_t count, uint64_t key);
  // The head's mask for the call's examples, on the host; null if there is none.
  absl::StatusOr<const float*> Mask(const ModelHead& head, int64_t examples);
  // Whether the losses of a batch in slices can be divided only after all slices went forward.
  bool MasksCount() const {
    return std::any_of(heads_.begin(), heads_.end(),
                       [](const ModelHead& head) { return head.mask != Graph::kNone; });
  }
  // Adds, for each head, the rows of some examples that its mask and ignore_class leave, if the
  // loss is divided by those; after Forward of these examples.
  absl::Status CountRowsOf(const Batch& batch, int64_t first, int64_t count,
                           std::vector<double>& rows);
  // Turns the rows of the whole batch into Divisors.
  void DivideByRows(const Batch& batch, std::vector<double>& rows) const;
  // For each head, the number by which the sum of its losses over the whole batch is divided.
  absl::StatusOr<std::vector<double>> Divisors(const Batch& batch, uint64_t key,
                                               const Slices& slices, bool training);
  absl::Status HeadLoss(size_t index, const Batch& batch, const GraphCall& call, double each,
                        bool gradient, double* sum);
  // Whether the metrics of an output are added up in training: not of a very large one, such as a
  // language model's, which only they would have computed.
  static constexpr int64_t kMeasuredFloatsMax = int64_t{1} << 20;  // of a batch
  bool MeasuredInTraining(const ModelHead& head) const {
    return !head.metrics.empty() &&
           Elements(graph_->shape(head.value)) * job_.batch <= kMeasuredFloatsMax;
  }
  absl::Status AddTrainingMetrics(const Batch& batch, const GraphCall& call);
  // Computes the losses of a slice in training, and their gradients.
  absl::Status AddLosses(const Batch& batch, const GraphCall& call,
                         std::span<const double> divisors, PendingSum& loss);
  // The losses, before their weights, and the metrics of a slice in inference. `losses` are by
  // head.
  absl::Status EvaluateSlice(const Batch& batch, const GraphCall& call,
                             std::span<const double> divisors, std::vector<PendingSum>& losses,
                             std::vector<MetricState>& added);
  // Adds what an evaluation of a batch found to `states`.
  void AddEvaluation(const Batch& batch, double penalties, const std::vector<PendingSum>& losses,
                     std::vector<MetricState>& added, std::vector<MetricState>& states) const;
  absl::StatusOr<std::vector<Column>> OutputsOf(const Batch& batch);
  absl::Status AddMetrics(const ModelHead& head, const Batch& batch, const GraphCall& call,
                          std::vector<MetricState>& to, size_t& at);

  const Job job_;
  const int64_t accumulate_;
  const BatchPart part_;
  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Graph> graph_;  // is destroyed before ops_
  const std::vector<LayerRow> before_;
  std::optional<ProgramInputs> data_;  // set by Init
  std::vector<ModelHead> heads_;
  std::vector<std::string> output_names_;
  std::vector<std::string> metric_names_{"loss"};
  std::vector<MemoryRow> memory_;  // from the plan
  bool rehearsing_ = false;
  bool owes_sum_ = false;         // to the other parts of the batch
  mutable bool doubted_ = false;  // a doubt is said once
  MemoryPlan plan_;
  // State of one run; pointers are to the device's memory.
  ProgramCopies copies_;
  std::optional<GradientSum> gradient_sum_;  // only in a program that computes a part
  VariableCallbacks callbacks_;
  std::function<void(size_t)> there_;
  std::vector<const float*> batch_inputs_, batch_targets_;  // of the whole batch
  std::vector<const float*> inputs_, parameters_;
  std::vector<float*> gradients_;
  std::vector<float> weights_, mask_, output_;
  std::vector<MetricState> training_metrics_;
};

}  // namespace paracord
