// The job as the first worker's facts fix it: what of them is taken, what job.state keeps, and how
// many epochs and batches that makes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/one_line.h"
#include "config/data_plan.h"
#include "config/partitions.h"
#include "coordinator/core/core.h"
#include "coordinator/core/partitioner.h"
#include "coordinator/core/placement.h"

namespace paracord {
namespace {

constexpr int kMetricsMax = 1000;
constexpr size_t kShownBytesMax = 200;  // of what a worker says, in a line of the log

constexpr char kOtherData[] =
    ": what data.train and data.test name is not what the job was begun with; put that back, or "
    "begin anew in another --dir";

// Checks the texts of a worker's facts that are kept as it says them.
absl::Status CheckNames(const JobFacts& facts) {
  if (!facts.fingerprint().empty() && !IsName(facts.fingerprint())) {
    return absl::InvalidArgumentError(
        absl::StrCat("facts: their fingerprint is ", OneLine(facts.fingerprint(), kShownBytesMax)));
  }
  if (facts.metric_names_size() > kMetricsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("facts: ", facts.metric_names_size(), " metrics, more than ", kMetricsMax));
  }
  for (const std::string& name : facts.metric_names()) {
    if (IsName(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("facts: no metric can be named ", OneLine(name, kShownBytesMax)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string TooFewBatches(const Job& job, uint64_t batches, uint64_t reached,
                          const std::string& where) {
  return absl::StrCat(job.steps.has_value() ? "steps" : "epochs", ": that is ", batches,
                      " batches, but the job has come to batch ", reached, " ", where,
                      "; give at least as many, or begin anew in another --dir");
}

void CoordinatorCore::FixJob(const JobFacts& facts) {
  state_.run_id = options_.new_run_id;
  ps_.SetRun(state_.run_id);
  DataPlan& plan = state_.plan;
  plan.set_records(facts.records());
  plan.set_test_records(facts.test_records());
  plan.set_batch(job_.batch);
  plan.set_split_batches(job_.split_batches.value_or(DefaultSplitBatches(BatchesPerEpoch(plan))));
  plan.set_shuffle(job_.shuffle);
  plan.set_seed(job_.seed);
  plan.set_fingerprint(facts.fingerprint());
  absl::Status usable = CheckNames(facts);
  if (usable.ok()) usable = CheckDataPlan(plan);
  if (usable.ok() && !job_.steps.has_value()) usable = CheckEpochs(plan, job_.epochs);
  state_.variables.assign(facts.variables().begin(), facts.variables().end());
  if (usable.ok()) usable = CheckVariables(state_.variables);
  if (!usable.ok()) {
    return EndJob(ExitCode::kConfiguration, "failed", std::string(usable.message()));
  }
  state_.metric_names.assign(facts.metric_names().begin(), facts.metric_names().end());
  absl::StatusOr<std::vector<PartitionSpec>> partitions =
      PartitionVariables(state_.variables, job_.partitioner);
  absl::Status placed = partitions.status();
  if (partitions.ok()) {
    state_.partitions = *std::move(partitions);
    placed = PlaceLayout();
  }
  if (!placed.ok()) {
    return EndJob(ExitCode::kConfiguration, "failed", std::string(placed.message()));
  }
  Info(
      absl::StrFormat("the data: %d records in %d batches an epoch, %d test records; %d variables "
                      "in %d partitions",
                      plan.records(), BatchesPerEpoch(plan), plan.test_records(),
                      state_.variables.size(), state_.partitions.size()));
  // Nobody acts on the new job before it is durable: job_fixed_ is set when it is.
  SaveJobState();
}

absl::Status CoordinatorCore::PlaceLayout() {
  std::vector<PartitionSpec> layout = state_.partitions;
  absl::Status placed =
      PlacePartitions(job_.placement, ps_.size(), PartitionBytes(state_.variables, layout), layout);
  ps_.SetLayout(std::move(layout));
  return placed;
}

void CoordinatorCore::SaveJobState() {
  if (!writer_.Begin(generation_.claiming())) return;
  JobState saved = state_;
  saved.counters = CountersNow(Counts());
  saved.evaluations = evaluations_.results();
  saved.stop = evaluations_.stop();
  saved.rejected = failures_.counts().All();
  Emit(WriteJobState{generation_.claimed(), std::move(saved)});
}

void CoordinatorCore::Handle(const JobStateWrittenEvent& event) {
  writer_.End(event.status, now_ms_);
  if (absl::IsAborted(event.status)) {
    return Leave(ExitCode::kFenced, std::string(event.status.message()));
  }
  if (!event.status.ok()) {
    Error(absl::StrCat("job.state is not written: ", writer_.problem()));
    // An evaluation that is lost is only repeated; a decision to stop has to be durable first.
    if (!evaluations_.unsaved() || evaluations_.stop().has_value()) return;
  } else if (!job_fixed_ && !state_.run_id.empty()) {
    job_fixed_ = true;
  } else if (writer_.again()) {
    SaveJobState();
    return;
  }
  if (event.status.ok() && !writer_.again()) failures_.Saved();
  if (evaluations_.TakeUntold()) Info(InWords(evaluations_.results().back(), Extent().epochs()));
  if (evaluations_.TakeUnsaved()) ReadLedgers();
}

std::optional<std::string> CoordinatorCore::FactsDiffer(const JobFacts& facts) const {
  if (const absl::Status names = CheckNames(facts); !names.ok())
    return std::string(names.message());
  const DataPlan& plan = state_.plan;
  if (facts.records() != plan.records()) {
    return absl::StrCat("it finds ", facts.records(), " training records, the job has ",
                        plan.records(), kOtherData);
  }
  if (facts.test_records() != plan.test_records()) {
    return absl::StrCat("it finds ", facts.test_records(), " test records, the job has ",
                        plan.test_records(), kOtherData);
  }
  if (facts.fingerprint() != plan.fingerprint()) {
    return absl::StrCat("its data files (with vocabularies) have the fingerprint ",
                        facts.fingerprint(), ", the job's ", plan.fingerprint(), kOtherData);
  }
  for (int i = 0; i < facts.variables_size(); ++i) {
    const VariableSpec& theirs = facts.variables(i);
    const bool same = static_cast<size_t>(i) < state_.variables.size() &&
                      state_.variables[static_cast<size_t>(i)].name() == theirs.name() &&
                      std::equal(theirs.shape().begin(), theirs.shape().end(),
                                 state_.variables[static_cast<size_t>(i)].shape().begin(),
                                 state_.variables[static_cast<size_t>(i)].shape().end());
    if (!same) {
      return absl::StrCat("its model has another variable ",
                          OneLine(theirs.name(), kShownBytesMax));
    }
  }
  if (static_cast<size_t>(facts.variables_size()) != state_.variables.size()) {
    return "its model lacks variables of the job";
  }
  return std::nullopt;
}

}  // namespace paracord
