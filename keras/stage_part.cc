#include "keras/stage_part.h"

#include <utility>

#include "common/flush_denormals.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "keras/stage_schedule.h"

namespace paracord {
namespace {

// Waits at the end of a stage's run, however it ends, until nothing is in flight.
class StageDevice {
 public:
  explicit StageDevice(Ops& ops) : ops_(ops) { ops_.Enter(); }
  ~StageDevice() { ops_.Finish().IgnoreError(); }
  StageDevice(const StageDevice&) = delete;
  StageDevice& operator=(const StageDevice&) = delete;

 private:
  const FlushDenormals flush_;
  Ops& ops_;
};

}  // namespace

absl::Status StagePart::Bind(const StageRun& run, bool with_targets) {
  losses_.clear();
  divisors_.clear();
  RETURN_IF_ERROR(program_->BindParameters(run.values));
  if (!run.gradients.empty()) RETURN_IF_ERROR(program_->BindGradients(run.gradients));
  return program_->BindBatch(run.batch, with_targets);
}

// With `several`, every slice in flight has its own place.
absl::StatusOr<GraphCall> StagePart::Prepare(const StageRun& run, const Slices& slices,
                                             int64_t slice, bool several) {
  const int64_t examples = run.batch.examples;
  const int64_t first = examples * slice / slices.all;
  const int64_t count = examples * (slice + 1) / slices.all - first;
  const size_t place = several ? static_cast<size_t>(slice) % (stages_ - stage_) : 0;
  RETURN_IF_ERROR(graph().Prepare(count, place));
  GraphCall call = program_->Slice(run.batch, first, count, run.key);
  call.last = slice + 1 == slices.end;
  return call;
}

absl::StatusOr<GraphCall> StagePart::Forward(const StageRun& run, const Slices& slices,
                                             int64_t slice, bool training, bool several) {
  ASSIGN_OR_RETURN(const GraphCall call, Prepare(run, slices, slice, several));
  if (stage_ > 0) {
    ASSIGN_OR_RETURN(const StageTensors values, links_.ReceiveValues(stage_));
    graph().ReceiveValues(call, values);
  }
  {
    const TraceSpan span("forward");
    graph().Forward(call, training);
  }
  if (!last()) RETURN_IF_ERROR(links_.SendValues(stage_, graph().SendValues(call, training)));
  return call;
}

// A batch in several slices is divided by the count over all slices. Counts of masks are known only
// after a forward pass over all slices; the stages run an extra one before.
absl::Status StagePart::FindDivisors(const StageRun& run, const Slices& slices, bool training) {
  if (slices.count() == 1) return absl::OkStatus();
  std::vector<double> divisors(program_->heads_.size(), 0);
  for (int64_t slice = slices.begin; slice < slices.end; ++slice) {
    if (program_->MasksCount()) {
      RETURN_IF_ERROR(Forward(run, slices, slice, training, /*several=*/false).status());
    }
    if (!last()) continue;
    const int64_t examples = run.batch.examples;
    const int64_t first = examples * slice / slices.all;
    const int64_t count = examples * (slice + 1) / slices.all - first;
    RETURN_IF_ERROR(program_->CountRowsOf(run.batch, first, count, divisors));
  }
  program_->DivideByRows(run.batch, divisors);
  divisors_ = std::move(divisors);
  return absl::OkStatus();
}

// The divisors of a batch in a single slice, after Forward.
absl::Status StagePart::DivideOne(const StageRun& run, const GraphCall& call) {
  if (!divisors_.empty()) return absl::OkStatus();
  std::vector<double> divisors(program_->heads_.size(), 0);
  RETURN_IF_ERROR(program_->CountRowsOf(run.batch, call.first_example, call.batch, divisors));
  program_->DivideByRows(run.batch, divisors);
  divisors_ = std::move(divisors);
  return absl::OkStatus();
}

absl::Status StagePart::Backward(const StageRun& run, const Slices& slices, int64_t slice) {
  ASSIGN_OR_RETURN(const GraphCall call, Prepare(run, slices, slice, /*several=*/true));
  SliceLoss& loss = losses_[static_cast<size_t>(slice)];
  if (!last()) {
    ASSIGN_OR_RETURN(const StageTensors gradients, links_.ReceiveGradients(stage_));
    graph().ReceiveGradients(call, gradients);
  }
  const TraceSpan span("backward");
  if (last()) {
    RETURN_IF_ERROR(DivideOne(run, call));
    RETURN_IF_ERROR(program_->AddTrainingMetrics(run.batch, call));
    RETURN_IF_ERROR(program_->AddLosses(run.batch, call, divisors_, loss.heads));
  }
  const bool add = slice > slices.begin;
  graph().ActivityPenalties(call, loss.activities);
  graph().BackwardNodes(call, program_->gradients_, add, loss.written);
  graph().EndUnread(call, program_->gradients_, add, loss.unread);
  return stage_ == 0 ? absl::OkStatus() : links_.SendGradients(stage_, graph().SendGradients(call));
}

absl::Status StagePart::Train(const StageRun& run) {
  const StageDevice device(*program_->ops_);
  program_->training_metrics_.clear();
  const ProgramInputs& data = *program_->data_;
  if (data.tables().any() && !data.has_rows()) RETURN_IF_ERROR(graph().ReserveAllRows());
  RETURN_IF_ERROR(Bind(run, /*with_targets=*/true));
  return TrainSlices(run);
}

absl::Status StagePart::TrainSlices(const StageRun& run) {
  const Slices slices = program_->OwnSlices(run.batch);
  losses_.resize(static_cast<size_t>(slices.count()));
  RETURN_IF_ERROR(FindDivisors(run, slices, /*training=*/true));
  for (const StageStep& step : ScheduleOfStage(stages_, stage_, losses_.size())) {
    const auto slice = static_cast<int64_t>(step.micro_batch);
    if (step.forward) {
      RETURN_IF_ERROR(Forward(run, slices, slice, /*training=*/true, /*several=*/true).status());
    } else {
      RETURN_IF_ERROR(Backward(run, slices, slice));
    }
  }
  return program_->ops_->Finish();
}

absl::Status StagePart::Evaluate(const StageRun& run) {
  const StageDevice device(*program_->ops_);
  RETURN_IF_ERROR(Bind(run, /*with_targets=*/true));
  return EvaluateSlices(run);
}

absl::Status StagePart::EvaluateSlices(const StageRun& run) {
  const Slices slices = program_->OwnSlices(run.batch);
  losses_.resize(static_cast<size_t>(slices.count()));
  head_losses_.assign(program_->heads_.size(), {});
  measured_.assign(program_->metric_names_.size(), {});
  RETURN_IF_ERROR(FindDivisors(run, slices, /*training=*/false));
  for (int64_t slice = slices.begin; slice < slices.end; ++slice) {
    ASSIGN_OR_RETURN(const GraphCall call,
                     Forward(run, slices, slice, /*training=*/false, /*several=*/false));
    SliceLoss& loss = losses_[static_cast<size_t>(slice)];
    if (slice == 0) graph().Penalties(call, loss.penalties);
    graph().ActivityPenalties(call, loss.activities);
    if (!last()) continue;
    RETURN_IF_ERROR(DivideOne(run, call));
    RETURN_IF_ERROR(program_->EvaluateSlice(run.batch, call, divisors_, head_losses_, measured_));
  }
  return program_->ops_->Finish();
}

absl::Status StagePart::Predict(const StageRun& run) {
  const StageDevice device(*program_->ops_);
  RETURN_IF_ERROR(Bind(run, /*with_targets=*/false));
  RETURN_IF_ERROR(Forward(run, Slices(), 0, /*training=*/false, /*several=*/false).status());
  RETURN_IF_ERROR(program_->ops_->Finish());
  if (!last()) return absl::OkStatus();
  ASSIGN_OR_RETURN(outputs_, program_->OutputsOf(run.batch));
  return absl::OkStatus();
}

// In the order of a single device: losses of outputs, penalties of activities in model order,
// penalties of variables in the order of the backward pass.
double StagePart::LossOf(std::span<const std::unique_ptr<StagePart>> stages, const Batch& batch) {
  double total = 0;
  for (size_t slice = 0; slice < stages[0]->losses_.size(); ++slice) {
    const auto add = [&](const std::unique_ptr<StagePart>& stage, PendingSum SliceLoss::*part) {
      total = (stage->losses_[slice].*part).After(total);
    };
    add(stages.back(), &SliceLoss::heads);
    for (const auto& stage : stages) add(stage, &SliceLoss::activities);
    for (size_t s = stages.size(); s-- > 0;) add(stages[s], &SliceLoss::written);
    for (const auto& stage : stages) add(stage, &SliceLoss::unread);
  }
  return stages[0]->program_->data_->NanUnlessFinite(batch) + total;
}

void StagePart::AddEvaluation(std::span<const std::unique_ptr<StagePart>> stages,
                              const Batch& batch, std::vector<MetricState>& states) {
  double penalties = 0;
  for (size_t slice = 0; slice < stages[0]->losses_.size(); ++slice) {
    for (PendingSum SliceLoss::*part : {&SliceLoss::penalties, &SliceLoss::activities}) {
      for (const auto& stage : stages) penalties = (stage->losses_[slice].*part).After(penalties);
    }
  }
  StagePart& last = *stages.back();
  last.program_->AddEvaluation(batch, penalties, last.head_losses_, last.measured_, states);
}

}  // namespace paracord
