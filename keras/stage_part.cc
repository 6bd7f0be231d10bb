#include "keras/stage_part.h"

#include <optional>
#include <utility>

#include "common/flush_denormals.h"
#include "common/status_macros.h"
#include "common/trace.h"
#include "keras/stage_schedule.h"

namespace paracord {

// Nothing is in flight afterwards, however the run ends. Waiting alone finds a lost device, whose
// calls may have failed with a vaguer error before.
absl::Status StagePart::OnDevice(const std::function<absl::Status()>& run) {
  const FlushDenormals flush;
  Ops& ops = *program_->ops_;
  ops.Enter();
  const absl::Status done = run();
  const absl::Status finished = ops.Finish();
  return done.ok() || absl::IsDataLoss(finished) ? finished : done;
}

// Waits for the device, and reports each gradient whose download is complete.
absl::Status StagePart::Wait() {
  Ops& ops = *program_->ops_;
  while (const std::optional<size_t> variable = ops.AwaitDownload()) links_.Report(*variable);
  return ops.Finish();
}

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
  RETURN_IF_ERROR(graph().Prepare(count, several ? program_->PlaceOf(slice) : 0));
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
  if (last()) return call;
  StageTensors values = graph().SendValues(call, training);
  RETURN_IF_ERROR(Wait());
  RETURN_IF_ERROR(links_.SendValues(stage_, std::move(values)));
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
  if (stage_ == 0) return absl::OkStatus();
  StageTensors gradients = graph().SendGradients(call);
  RETURN_IF_ERROR(Wait());
  return links_.SendGradients(stage_, std::move(gradients));
}

absl::Status StagePart::Train(const StageRun& run) {
  return OnDevice([&]() -> absl::Status {
    program_->training_metrics_.clear();
    const ProgramInputs& data = *program_->data_;
    if (data.tables().any() && !data.has_rows()) RETURN_IF_ERROR(graph().ReserveAllRows());
    RETURN_IF_ERROR(Bind(run, /*with_targets=*/true));
    RETURN_IF_ERROR(TrainSlices(run));
    RETURN_IF_ERROR(Wait());
    program_->TraceDevice();
    return absl::OkStatus();
  });
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
  return absl::OkStatus();
}

absl::Status StagePart::Evaluate(const StageRun& run) {
  return OnDevice([&]() -> absl::Status {
    RETURN_IF_ERROR(Bind(run, /*with_targets=*/true));
    return EvaluateSlices(run);
  });
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
  return absl::OkStatus();
}

absl::Status StagePart::Predict(const StageRun& run) {
  return OnDevice([&]() -> absl::Status {
    RETURN_IF_ERROR(Bind(run, /*with_targets=*/false));
    RETURN_IF_ERROR(Forward(run, Slices(), 0, /*training=*/false, /*several=*/false).status());
    if (!last()) return absl::OkStatus();
    ASSIGN_OR_RETURN(outputs_, program_->OutputsOf(run.batch));
    return absl::OkStatus();
  });
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
