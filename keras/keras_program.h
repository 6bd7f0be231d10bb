// The Keras model as a GradientProgram: graph, losses and metrics over a device's operations. Made
// by BuildKerasProgram (build.cc); memory_report.cc plans its memory. Owns the Ops and everything
// on the device; used by one thread at a time. The model has no preprocessing layers any more
// (keras/preprocessing).
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

// Returns the number of the row of a trace for the device's stream `lane` (DeviceSpan::lane). Rows
// from 1000 on belong to the ps.
constexpr int64_t kDeviceTracks = 900;
constexpr int64_t DeviceTrack(size_t device, int lane) {
  return kDeviceTracks + 4 * static_cast<int64_t>(device) + lane;  // up to 25 devices
}

// What a program computes: part `index` of `count` of every batch, or whole batches; or stage
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
  // `before` has the rows of the preprocessing layers for the table of `paracord validate`.
  KerasProgram(const Job& job, std::unique_ptr<Ops> ops, std::unique_ptr<Graph> graph,
               std::vector<LayerRow> before, const BatchPart& part)
      : job_(job),
        accumulate_(std::max<uint32_t>(job.accumulate, 1)),
        part_(part),
        ops_(std::move(ops)),
        graph_(std::move(graph)),
        before_(std::move(before)),
        copies_(*ops_) {
    // Uploads each parameter before its first use, and downloads each gradient once final.
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

  // Called first. `input_columns` maps each input of the graph to a column of `schema.inputs`.
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
  // False if the program failed before it took part in all sums that the rest of the group awaits.
  bool part_ended() const { return !gradient_sum_.has_value() || gradient_sum_->ended(); }
  // Takes part in the group's sums of a step with zeros, without a batch.
  absl::Status AddZeros();

  // A program of a part of the batch returns the part's share of the loss, and the program of part
  // 0 gets the gradients of the whole batch. With a group and whole batches, the program of rank 0
  // gets the sums of the group's gradients, and every program gets its own gradients of tables,
  // because the batches read different rows.
  absl::StatusOr<double> ComputeGradients(const Batch& batch, uint64_t batch_key,
                                          ConstTensors values, MutableTensors gradients) override;
  // A program of a part of the batch has the states of the part.
  std::vector<MetricState> TakeTrainingMetrics() override {
    return std::exchange(training_metrics_, {});
  }
  void OnGradient(std::function<void(size_t)> there) override { there_ = std::move(there); }
  // A program of a part of the batch adds the part's states, of which some may be empty. The sums
  // over all parts are the batch's states.
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
  // Describes the stages of the job's model, for people; empty without stages.
  std::string StagesSummary() const;
  // Limits the graph to the program's stage, if any.
  absl::Status KeepToStage();
  absl::Status PrepareUsual();
  // Whether the program computes losses and metrics: without stages, or as the last stage.
  bool has_losses() const { return part_.stage + 1 == part_.stages; }
  // The place of a slice's values in the graph (Graph::Prepare). A stage needs a place for itself
  // and one for each later stage.
  size_t PlaceOf(int64_t slice) const {
    return static_cast<size_t>(slice) % (part_.stages - part_.stage);
  }
  // The places that slices of training use.
  size_t places() const {
    return std::min(part_.stages - part_.stage, static_cast<size_t>(accumulate_));
  }
  // Records in the trace, if there is one, what the device did since the last call. Called after
  // Ops::Finish.
  void TraceDevice();
  // On a device with its own memory: computes and reserves the memory that the job's batches need,
  // before any computation. RESOURCE_EXHAUSTED names the largest uses.
  absl::Status PlanMemory(const Batch& schema);
  absl::Status Rehearse(const Batch& schema);
  absl::Status PrepareAnother();
  // Returns the floats of a variable in the largest batch of training.
  int64_t FloatsMost(size_t variable) const;
  std::vector<MemoryRow> MemoryRows() const;
  // A batch cut into `all` slices, of which this program computes [begin, end).
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
  // Whether the group adds up the variable's gradients. The rows of tables are equal in parts of a
  // batch, but differ between whole batches.
  bool Adds(const VariableSpec& variable) const { return part_.count > 1 || !variable.has_table(); }
  absl::Status BindBatch(const Batch& batch, bool with_targets);
  // The arguments for a run over examples [first, first + count) of the batch.
  GraphCall Slice(const Batch& batch, int64_t first, int64_t count, uint64_t key);
  // The head's mask for the call's examples, on the host; null if there is none.
  absl::StatusOr<const float*> Mask(const ModelHead& head, int64_t examples);
  // Whether all slices of a batch must go forward before any loss can be divided.
  bool MasksCount() const {
    return std::any_of(heads_.begin(), heads_.end(),
                       [](const ModelHead& head) { return head.mask != Graph::kNone; });
  }
  // For each head whose loss is divided by a count of rows, adds the rows that mask and
  // ignore_class leave of `count` examples. Called after Forward of these examples.
  absl::Status CountRowsOf(const Batch& batch, int64_t first, int64_t count,
                           std::vector<double>& rows);
  // Turns the counts of rows in the whole batch into the results of Divisors.
  void DivideByRows(const Batch& batch, std::vector<double>& rows) const;
  // Returns for each head the divisor of the sum of losses over the whole batch.
  absl::StatusOr<std::vector<double>> Divisors(const Batch& batch, uint64_t key,
                                               const Slices& slices, bool training);
  absl::Status HeadLoss(size_t index, const Batch& batch, const GraphCall& call, double each,
                        bool gradient, double* sum);
  // Whether training measures the head's metrics. A huge output, such as a language model's, would
  // be computed for the metrics alone, and is not measured.
  static constexpr int64_t kMeasuredFloatsMax = int64_t{1} << 20;  // per batch
  bool MeasuredInTraining(const ModelHead& head) const {
    return !head.metrics.empty() &&
           Elements(graph_->shape(head.value)) * job_.batch <= kMeasuredFloatsMax;
  }
  absl::Status AddTrainingMetrics(const Batch& batch, const GraphCall& call);
  // Computes the losses of a slice in training, and their gradients.
  absl::Status AddLosses(const Batch& batch, const GraphCall& call,
                         std::span<const double> divisors, PendingSum& loss);
  // Computes the losses, without their weights, and the metrics of a slice in inference. `losses`
  // has an entry for each head.
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
  bool owes_sum_ = false;         // the other parts wait for this part's counts of rows
  mutable bool doubted_ = false;  // a doubt was logged; no other will be
  MemoryPlan plan_;
  // The state of the current run; pointers are to the device's memory.
  ProgramCopies copies_;
  std::optional<GradientSum> gradient_sum_;  // set if there is a group
  VariableCallbacks callbacks_;
  std::function<void(size_t)> there_;
  std::vector<const float*> batch_inputs_, batch_targets_;  // whole batch, on the device
  std::vector<const float*> inputs_, parameters_;
  std::vector<float*> gradients_;
  std::vector<float> weights_, mask_, output_;
  std::vector<MetricState> training_metrics_;
};

}  // namespace paracord
