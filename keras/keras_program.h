// The Keras model as a GradientProgram: graph, losses and metrics over a device's operations. Made
// in build.cc. Owns the Ops and everything on the device; used by one thread at a time. The graph
// has no preprocessing layers: they were taken out of the model before (keras/preprocessing).
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

// Returns the number of a row in a trace: the row for `lane` (DeviceSpan::lane) of a device. Rows
// from 1000 on belong to the ps.
constexpr int64_t kDeviceTracks = 900;
constexpr int64_t DeviceTrack(size_t device, int lane) {
  return kDeviceTracks + 4 * static_cast<int64_t>(device) + lane;  // up to 25 devices
}

// What a program computes: part `index` of `count` of every batch (of 1: whole batches), and stage
// `stage` of `stages` of the model (keras/stage_part.h). `group` adds up the gradients of several
// programs, of which this one has the rank `rank`; null: no group. `sums` is the group's barrier.
struct BatchPart {
  size_t index = 0, count = 1;
  GroupOps* group = nullptr;
  PartSum* sums = nullptr;
  size_t rank = 0;
  size_t stage = 0, stages = 1;
};

class KerasProgram : public GradientProgram {
 public:
  // `before` has the preprocessing layers' rows for the table that `paracord validate` prints.
  KerasProgram(const Job& job, std::unique_ptr<Ops> ops, std::unique_ptr<Graph> graph,
               std::vector<LayerRow> before, const BatchPart& part)
      : job_(job),
        accumulate_(std::max<uint32_t>(job.accumulate, 1)),
        part_(part),
        ops_(std::move(ops)),
        graph_(std::move(graph)),
        before_(std::move(before)),
        copies_(*ops_) {
    // Uploads each parameter before its first use, and downloads each gradient once complete.
    callbacks_.needed = [this](size_t variable) { copies_.parameters.Send(variable); };
    callbacks_.final = [this](size_t variable) {
      copies_.gradients.Download(variable, /*awaited=*/there_ != nullptr);
      if (there_ && ops_->host_memory()) there_(variable);
    };
    if (part.group == nullptr) return;
    gradient_sum_.emplace(
        *ops_, *part.group, /*receives=*/part.rank == 0,
        [this] { part_.sums->Sum(part_.rank, {}).status().IgnoreError(); },
        [this](size_t variable) {
          copies_.gradients.Download(variable, /*awaited=*/there_ != nullptr);
        });
    callbacks_.final = [this](size_t variable) { gradient_sum_->Final(variable); };
  }

  // Called once, before all other functions. `input_columns` has for each input of the graph the
  // index of its column in `schema.inputs`.
  absl::Status Init(const ModelSpec& model, const Batch& schema, std::vector<size_t> input_columns,
                    Problems& problems);

  const std::vector<VariableSpec>& variables() const override { return graph_->variables(); }
  bool host_memory() const override { return ops_->host_memory(); }
  const std::vector<std::string>& metric_names() const override { return metric_names_; }

  // The checks at the beginning of ComputeGradients.
  absl::Status CheckTrainingBatch(const Batch& batch) const {
    return CheckBatch(batch, /*with_targets=*/true);
  }
  // The checks at the beginning of Predict.
  absl::Status CheckInputs(const Batch& batch) const {
    return CheckBatch(batch, /*with_targets=*/false);
  }
  // Sets how later steps use the group's sums of gradients; only for a program with a group.
  void UseSums(const GradientSum::Use& use) { gradient_sum_->SetUse(use); }
  // False if the program failed before it took part in all sums that the group's programs await.
  bool part_ended() const { return !gradient_sum_.has_value() || gradient_sum_->ended(); }
  // Takes part in all of the group's sums of a step, with gradients of zero.
  absl::Status AddZeros();

  // A program of a part of the batch returns the part's share of the loss, and the program of part
  // 0 writes the gradients of the whole batch. With a group and whole batches, the program of rank
  // 0 writes the sums of the group's gradients, and every program writes its own gradients of
  // tables, because the batches read different rows.
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  // A program of a part of the batch returns the states of that part.
  std::vector<MetricState> TakeTrainingMetrics() override {
    return std::exchange(training_metrics_, {});
  }
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  // A program of a part of the batch adds the states of that part.
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
    std::string doubt;  // about the targets alone, which preprocessing does not change
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
  // Describes the stages of the job's model, for people; empty if the model is not cut into stages.
  std::string StagesSummary() const;
  // Limits the graph to the program's stage, if any.
  absl::Status KeepToStage();
  absl::Status PrepareUsual();
  // Whether the program computes losses and metrics: true of the last stage and without stages.
  bool has_losses() const { return part_.stage + 1 == part_.stages; }
  // The set of buffers in which the graph keeps a slice's values (`held` of Graph::Prepare). A
  // stage needs one set, and one more for each later stage.
  size_t PlaceOf(int64_t slice) const {
    return static_cast<size_t>(slice) % (part_.stages - part_.stage);
  }
  // The number of sets of buffers that training uses.
  size_t places() const {
    return std::min(part_.stages - part_.stage, static_cast<size_t>(accumulate_));
  }
  // Records in the trace, if any, the device's work since the last call. Called after Ops::Finish.
  void TraceDevice();
  // On a device with its own memory: computes and reserves the memory that the job's batches need,
  // before any computation. RESOURCE_EXHAUSTED names the largest uses.
  absl::Status PlanMemory(const Batch& schema);
  absl::Status Rehearse(const Batch& schema);
  absl::Status PrepareAnother();
  // Returns the most floats of a variable that a training batch uses.
  int64_t FloatsMost(size_t variable) const;
  std::vector<MemoryRow> MemoryRows() const;
  // A batch is cut into `all` slices, of which this program computes slices [begin, end).
  struct Slices {
    int64_t all = 1, begin = 0, end = 1;
    int64_t count() const { return end - begin; }
  };
  int64_t SliceCount() const { return accumulate_ * static_cast<int64_t>(part_.count); }
  Slices OwnSlices(const Batch& batch) const;
  bool SumsDivisors() const;
  // The most examples in a slice of a batch of the job's batch size.
  int64_t SliceExamples() const {
    return std::max<int64_t>((job_.batch + SliceCount() - 1) / SliceCount(), 1);
  }
  absl::Status ComputeSlice(const Batch& batch, uint64_t key, const Slices& slices, int64_t slice,
                            std::vector<double>& divisors, PendingSum& loss);
  absl::Status CheckBatch(const Batch& batch, bool with_targets) const;
  absl::Status BindParameters(ConstTensors values);
  absl::Status BindGradients(MutableTensors gradients);
  // Whether the group adds up the variable's gradients. Programs of parts of a batch use the same
  // rows of a table; programs of whole batches do not.
  bool Adds(const VariableSpec& variable) const { return part_.count > 1 || !variable.has_table(); }
  absl::Status BindBatch(const Batch& batch, bool with_targets);
  // Returns the arguments for a run over the examples [first, first + count) of the batch.
  GraphCall Slice(const Batch& batch, int64_t first, int64_t count, uint64_t key);
  // Returns the mask of the head's output for the examples of the last Forward, in the host's
  // memory; null if the output has no mask.
  absl::StatusOr<const float*> Mask(const ModelHead& head, int64_t examples);
  // Whether an output has a mask: then every slice of a batch must go forward before a loss can be
  // divided by the number of rows that the masks leave.
  bool MasksCount() const {
    return std::any_of(heads_.begin(), heads_.end(),
                       [](const ModelHead& head) { return head.mask != Graph::kNone; });
  }
  // For each head whose loss is divided by the number of rows that a mask or ignore_class leaves,
  // adds the number of these rows in `count` examples. Called after Forward of these examples.
  absl::Status CountRowsOf(const Batch& batch, int64_t first, int64_t count,
                           std::vector<double>& rows);
  // Replaces the numbers of rows in the whole batch (CountRowsOf) by the results of Divisors.
  void DivideByRows(const Batch& batch, std::vector<double>& rows) const;
  // Returns for each head the divisor of the sum of losses over the whole batch.
  absl::StatusOr<std::vector<double>> Divisors(const Batch& batch, uint64_t key,
                                               const Slices& slices, bool training);
  absl::Status HeadLoss(size_t index, const Batch& batch, const GraphCall& call, double each,
                        bool gradient, double* sum);
  // Whether training computes the head's metrics. It does not for a huge output, such as a language
  // model's, which would be computed for the metrics alone.
  static constexpr int64_t kMeasuredFloatsMax = int64_t{1} << 20;  // per batch
  bool MeasuredInTraining(const ModelHead& head) const {
    return !head.metrics.empty() &&
           Elements(graph_->shape(head.value)) * job_.batch <= kMeasuredFloatsMax;
  }
  absl::Status AddTrainingMetrics(const Batch& batch, const GraphCall& call);
  // Computes the losses of a slice in training, and their gradients.
  absl::Status AddLosses(const Batch& batch, const GraphCall& call,
                         std::span<const double> divisors, PendingSum& loss);
  // Computes the losses, not multiplied by loss_weights, and the metrics of a slice in inference.
  // `losses` has an entry for each head.
  absl::Status EvaluateSlice(const Batch& batch, const GraphCall& call,
                             std::span<const double> divisors, std::vector<PendingSum>& losses,
                             std::vector<MetricState>& added);
  // Adds the results of a batch's evaluation to `states`.
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
  std::vector<MemoryRow> memory_;  // what PlanMemory found
  bool rehearsing_ = false;
  bool owes_sum_ = false;         // true: the other parts wait for this part's counts of rows
  mutable bool doubted_ = false;  // true: a doubt was logged, and no other will be
  MemoryPlan plan_;
  // The state of the current run; pointers are to the device's memory.
  ProgramCopies copies_;
  std::optional<GradientSum> gradient_sum_;  // set if there is a group
  VariableCallbacks callbacks_;
  std::function<void(size_t)> there_;
  std::vector<const float*> batch_inputs_, batch_targets_;  // of the whole batch, on the device
  std::vector<const float*> inputs_, parameters_;
  std::vector<float*> gradients_;
  std::vector<float> weights_, mask_, output_;
  std::vector<MetricState> training_metrics_;
};

}  // namespace paracord
