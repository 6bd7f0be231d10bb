// Begins the job by the facts of its first workers, and writes job.state.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/fingerprint64.h"
#include "config/data_plan.h"
#include "coordinator/core/core.h"
#include "coordinator/core/report.h"

namespace paracord {

// Replaces the facts of an untrained job. The new run id keeps partitions of the old run from being
// taken for those of the new run.
void CoordinatorCore::BeginAnew(const JobFacts& facts, uint32_t devices) {
  const std::string before = record_.run_id();
  const std::string run_id =
      before != options_.new_run_id
          ? options_.new_run_id
          : absl::StrFormat("%016x%016x", Fingerprint64("anew " + before), Fingerprint64(before));
  record_.Forget();
  samples_found_.reset();
  failures_.Forget();
  history_.Clear();
  sessions_.ForgetGivenBefore(std::numeric_limits<uint64_t>::max());
  ps_.TakeOver(record_.replaced_run_id());
  BeginJob(run_id, facts, devices);
  if (!phases_.ended()) ClaimNextGeneration("the job begins anew");
}

// `devices` of the worker with these facts; all workers are assumed to have as many.
void CoordinatorCore::BeginJob(const std::string& run_id, const JobFacts& facts, uint32_t devices) {
  const absl::Status begun = record_.Begin(run_id, facts, options_.workers.size() * devices);
  ps_.SetRun(record_.run_id());
  if (!begun.ok()) {
    return EndJob(ExitCode::kConfiguration, "failed", std::string(begun.message()));
  }
  if (!PlaceLayout()) return;
  const DataPlan& plan = record_.plan();
  effects_.Info(
      absl::StrFormat("the data: %d records in %d batches an epoch, %d test records; %d variables "
                      "in %d partitions",
                      plan.records(), BatchesPerEpoch(plan), plan.test_records(),
                      record_.variables().size(), ps_.layout().size()));
  SaveJobState();  // nobody acts on the new job before it is durable
}

// Places the partitions on the ps; ends the job if that is impossible.
bool CoordinatorCore::PlaceLayout() {
  absl::StatusOr<std::vector<PartitionSpec>> layout = record_.Placed(ps_.size());
  if (layout.ok()) {
    ps_.SetLayout(*std::move(layout));
    return true;
  }
  EndJob(ExitCode::kConfiguration, "failed", std::string(layout.status().message()));
  return false;
}

void CoordinatorCore::SaveJobState() {
  std::optional<JobState> saved = record_.BeginWrite(generation_.claiming());
  if (!saved.has_value()) return;
  saved->counters = Report(View(), now_ms_).counters();
  saved->evaluations = evaluations_.results();
  saved->stop = evaluations_.stop();
  saved->rejected = failures_.counts().All();
  saved->history = history_.Epochs(0, record_.metric_names());
  saved->history_open = history_.SaveOpen(now_ms_);
  effects_.Emit(WriteJobState{generation_.claimed(), *std::move(saved)});
}

uint64_t CoordinatorCore::Recoveries() const {
  const JobCounters& counters = record_.counters();
  return counters.worker_recoveries + counters.ps_recoveries + counters.rollbacks +
         ps_.recoveries();
}

// Saves the number of recoveries, from which the next coordinator counts on.
void CoordinatorCore::SaveRecoveries() {
  if (!record_.SaysRecoveries(Recoveries())) SaveJobState();
}

void CoordinatorCore::Handle(const JobStateWrittenEvent& event) {
  const bool fixed_now = record_.EndWrite(event.status, now_ms_);
  if (absl::IsAborted(event.status)) {
    return Leave(ExitCode::kFenced, std::string(event.status.message()));
  }
  if (move_.Is(Move::Phase::kWriting) && (!event.status.ok() || !record_.writer().again())) {
    LayoutWritten(event.status);
  }
  if (copies_.writing() && event.status.ok() && !record_.writer().again()) SecondsWritten();
  if (!event.status.ok()) {
    effects_.Error(absl::StrCat("job.state is not written: ", record_.writer().problem()));
    // A lost evaluation is only repeated; but a decision to stop has to be durable first.
    if (!evaluations_.unsaved() || evaluations_.stop().has_value()) return;
  } else if (!fixed_now && record_.writer().again()) {
    return SaveJobState();
  }
  if (event.status.ok() && !record_.writer().again()) failures_.Saved();
  if (evaluations_.TakeUnnotified())
    effects_.Info(InWords(evaluations_.results().back(), Extent().epochs()));
  if (evaluations_.TakeUnsaved()) ReadLedgers();
}

}  // namespace paracord
