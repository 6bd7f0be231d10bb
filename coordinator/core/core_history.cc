// The history of epochs: restores it, counts workers' reports, and closes epochs by the ledgers.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "coordinator/core/core.h"

namespace paracord {
namespace {

// The learning rate of the optimizer, not of moving averages; nullopt if no ps reports it.
std::optional<double> LearningRateOf(const JobView& job) {
  for (const Ps* ps : job.ps.Holders()) {
    for (const PartitionDescription& partition : ps->description.partitions()) {
      if (!partition.has_learning_rate() || partition.id() >= job.ps.layout().size()) continue;
      const uint32_t variable = job.ps.layout()[partition.id()].variable();
      if (job.record.variables()[variable].moving_average() > 0) continue;
      return partition.learning_rate();
    }
  }
  return std::nullopt;
}

bool IsFurther(const EpochHistory& one, const EpochHistory& other) {
  return std::pair(one.closed(), one.open_batches()) >
         std::pair(other.closed(), other.open_batches());
}

}  // namespace

// Restores the history from job.state, or from the newest checkpoint if that reaches further. Both
// are adapted to the present job, which may have been given more steps.
void CoordinatorCore::RestoreHistory(const nlohmann::json& epochs, const nlohmann::json& open) {
  const auto read = [this](const nlohmann::json& some_epochs, const nlohmann::json& some_open) {
    EpochHistory history;
    if (some_open.is_null()) return history;  // written by an earlier version
    const absl::Status status = history.Restore(some_epochs, some_open);
    if (!status.ok()) effects_.Warn(std::string(status.message()));
    if (history.closed() > 0) history.Extend(Extent().BatchesOfEpoch(history.closed() - 1));
    return history;
  };
  history_ = read(epochs, open);
  const Manifest* const newest = checkpoints_.newest();
  if (newest == nullptr || !newest->summary.contains("history_open")) return;
  EpochHistory of_checkpoint =
      read(newest->summary.value("history", nlohmann::json()), newest->summary.at("history_open"));
  if (IsFurther(of_checkpoint, history_)) history_ = std::move(of_checkpoint);
}

// Counts a worker's trained batches, but only of splits that the worker had leases of: a false
// report would take the place of the true report of another worker.
void CoordinatorCore::TakeTrained(WorkerSession& session, const WorkRequest& request) {
  const DataPlan& plan = record_.plan();
  const JobExtent extent = Extent();
  const GivenSplits& given = sessions_.GivenTo(session.task);
  for (const TrainedBatches& trained : request.trained()) {
    const uint64_t split = trained.epoch() * SplitsPerEpoch(plan) + trained.split();
    absl::Status fits;
    if (history_.Takes(trained.epoch()) && !given.MayKnow(split)) {
      fits = absl::InvalidArgumentError(
          absl::StrCat("it tells of split ", trained.split(), " of epoch ", trained.epoch() + 1,
                       ", which it was never given: that is not counted"));
    } else {
      fits = history_.Add(trained, plan, extent.BatchesOfEpoch(trained.epoch()),
                          record_.metric_names().size(), session.task);
    }
    if (fits.ok() || std::exchange(session.miscounts, true)) continue;
    effects_.Warn(absl::StrCat(session.task, ": ", std::string(fits.message())));
  }
  const int named =
      std::min(request.bad_records_size(), static_cast<int>(EpochHistory::kBadRecordsNamed));
  for (int i = 0; i < named; ++i) history_.NameBadRecord(request.bad_records(i));
}

// The ledgers have all epochs before `epoch`: closes them.
void CoordinatorCore::CloseHistory(uint64_t epoch) {
  const DataPlan& plan = record_.plan();
  const JobExtent extent = Extent();
  for (const uint64_t done : history_.OpenBefore(epoch)) {
    EpochClosing closing{.batches = extent.BatchesOfEpoch(done),
                         .learning_rate = LearningRateOf(View())};
    closing.examples = std::min(closing.batches * plan.batch(), ExamplesPerEpoch(plan));
    for (const RejectedBatch& batch : failures_.counts().All()) {
      if (batch.epoch != done) continue;
      ++closing.rejected;
      closing.rejected_batches.Add(batch.split * plan.split_batches() + batch.batch);
      const uint64_t examples = BatchExamples(plan, batch.split, batch.batch);
      closing.examples -= std::min(closing.examples, examples);
    }
    closing.cut_short = closing.batches < BatchesPerEpoch(plan);
    for (const std::string& task : history_.Close(done, closing, record_.metric_names(), now_ms_)) {
      WarnOfMetrics(task, done);
    }
  }
}

// Warns, once a session, that a task reports metrics of another kind than most batches have.
void CoordinatorCore::WarnOfMetrics(const std::string& task, uint64_t epoch) {
  const std::optional<uint64_t> id = sessions_.Of(task);
  if (!id.has_value() || std::exchange(sessions_.Find(*id)->miscounts, true)) return;
  effects_.Warn(absl::StrCat(task,
                             ": it tells of metrics of another kind than most batches of epoch ",
                             epoch + 1, " have: those are not counted"));
}

// An epoch opens. If workers have reported more batches than the ledgers have, partitions were
// restored from a checkpoint, and later batches are computed again.
void CoordinatorCore::NoteBatchesAgain(const OpenEpoch& open) {
  const uint64_t per_epoch = BatchesPerEpoch(record_.plan());
  uint64_t entered = open.epoch * per_epoch;
  for (const uint32_t next : open.next) entered += next;
  const uint64_t told = Extent().BatchesUpTo(history_.closed()) + history_.open_batches();
  if (told <= entered) return;
  PROBE("coordinator.batches.again");
  training_.GoesAgainTo(told);
}

}  // namespace paracord
