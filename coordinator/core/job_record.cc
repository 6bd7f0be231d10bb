#include "coordinator/core/job_record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/fingerprint64.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
#include "config/job_rounds.h"
#include "config/partitions.h"
#include "coordinator/core/partitioner.h"
#include "coordinator/core/placement.h"

namespace paracord {
namespace {

constexpr int kMetricsMax = 1000;
constexpr size_t kShownBytesMax = 200;  // a worker's text in a log line
constexpr size_t kListsBytesMax = 1000;

constexpr char kOtherData[] =
    ": what data.train and data.test name is not what the job was begun with; put that back, or "
    "begin anew in another --dir";

// Checks the texts of a worker's facts that are kept unchanged.
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
  if (facts.outputs_size() > kMetricsMax || !std::ranges::all_of(facts.outputs(), IsName)) {
    return absl::InvalidArgumentError("facts: the outputs are no names with shapes");
  }
  return absl::OkStatus();
}

// Says how a list in a worker's facts differs from the job's; nullopt if it does not, or if either
// list is empty.
template <class Theirs>
std::optional<std::string> OtherList(const char* what, const std::vector<std::string>& ours,
                                     const Theirs& theirs) {
  if (ours.empty() || theirs.empty() || std::ranges::equal(ours, theirs)) return std::nullopt;
  return OneLine(absl::StrCat("its model has the ", what, " ", absl::StrJoin(theirs, ", "),
                              ", and the job has ", absl::StrJoin(ours, ", ")),
                 kListsBytesMax);
}

}  // namespace

std::string TooFewBatches(const Job& job, uint64_t batches, uint64_t reached,
                          const std::string& where) {
  return absl::StrCat(job.steps.has_value() ? "steps" : "epochs", ": that is ", batches,
                      " batches, but the job has come to batch ", reached, " ", where,
                      "; give at least as many, or begin anew in another --dir");
}

JobRecord::JobRecord(const Job& job) : job_(job) {
  state_.job_json = JobToJson(job_);
  fingerprint_ = Fingerprint64(state_.job_json);
}

void JobRecord::Restore(JobState saved) {
  saved.job_json = std::move(state_.job_json);  // the present job may have more epochs
  state_ = std::move(saved);
}

void JobRecord::Restore(const Manifest& newest) {
  JobState state;
  state.run_id = newest.run_id;
  state.plan = newest.plan;
  state.variables = newest.variables;
  for (const ManifestPartition& partition : newest.partitions) {
    state.partitions.push_back(partition.spec);
  }
  if (newest.summary.contains("metric_names")) {
    for (const nlohmann::json& name : newest.summary["metric_names"]) {
      if (name.is_string()) state.metric_names.push_back(name);
    }
  }
  Restore(std::move(state));
}

absl::Status JobRecord::Begin(const std::string& run_id, const JobFacts& facts, size_t computing) {
  state_.run_id = run_id;
  DataPlan& plan = state_.plan;
  plan.set_records(facts.records());
  plan.set_test_records(facts.test_records());
  plan.set_batch(job_.batch);
  plan.set_drop_last(job_.each_epoch.drop_last);
  ASSIGN_OR_RETURN(const uint32_t lanes, RoundBatchesOf(job_, computing));
  plan.set_lanes(lanes);
  const uint64_t batches = BatchesPerEpoch(plan);
  plan.set_split_batches(lanes > 0 ? RoundsPerEpoch(plan)
                                   : job_.split_batches.value_or(DefaultSplitBatches(batches)));
  plan.set_shuffle(job_.each_epoch.shuffle);
  plan.set_seed(job_.seed);
  plan.set_fingerprint(facts.fingerprint());
  RETURN_IF_ERROR(CheckNames(facts));
  RETURN_IF_ERROR(CheckDataPlan(plan));
  if (!job_.steps.has_value()) RETURN_IF_ERROR(CheckEpochs(plan, job_.epochs));
  state_.variables.assign(facts.variables().begin(), facts.variables().end());
  RETURN_IF_ERROR(CheckVariables(state_.variables));
  NameMetrics(facts);
  ASSIGN_OR_RETURN(state_.partitions, PartitionVariables(state_.variables, job_.partitioner));
  return absl::OkStatus();
}

void JobRecord::Forget() {
  JobState fresh;
  fresh.job_json = std::move(state_.job_json);
  fresh.replaced_run_id = state_.run_id;
  fresh.counters = state_.counters;
  fresh.counters.computed = fresh.counters.duplicates = 0;  // their training is forgotten
  state_ = std::move(fresh);
  fixed_ = false;
}

std::optional<std::string> JobRecord::Differs(const JobFacts& facts) const {
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
  for (size_t i = 0; i < static_cast<size_t>(facts.variables_size()); ++i) {
    const VariableSpec& theirs = facts.variables(static_cast<int>(i));
    const bool same = i < state_.variables.size() && state_.variables[i].name() == theirs.name() &&
                      std::ranges::equal(theirs.shape(), state_.variables[i].shape());
    if (!same) {
      return absl::StrCat("its model has another variable ",
                          OneLine(theirs.name(), kShownBytesMax));
    }
  }
  if (static_cast<size_t>(facts.variables_size()) != state_.variables.size()) {
    return "its model lacks variables of the job";
  }
  if (auto other = OtherList("metrics", state_.metric_names, facts.metric_names())) return other;
  return OtherList("outputs", state_.outputs, facts.outputs());
}

void JobRecord::NameMetrics(const JobFacts& facts) {
  const auto take = [](const auto& theirs, std::vector<std::string>& ours) {
    if (ours.empty()) ours.assign(theirs.begin(), theirs.end());
  };
  take(facts.metric_names(), state_.metric_names);
  take(facts.outputs(), state_.outputs);
}

JobExtent JobRecord::Extent(const std::optional<StopDecision>& stop) const {
  return {job_, state_.plan, stop};
}

absl::StatusOr<std::vector<PartitionSpec>> JobRecord::Placed(uint32_t ps_count) const {
  std::vector<PartitionSpec> placed = state_.partitions;
  if (state_.layout.has_value()) {
    const bool hot = job_.partitioner.copies > 0 && job_.guarantees.sync();
    for (size_t i = 0; i < placed.size(); ++i) {
      placed[i].set_ps(state_.layout->holders[i]);
      const uint32_t second = state_.layout->SecondOf(i);
      if (hot && second != kNobody) placed[i].add_copies(second);
    }
    return placed;
  }
  RETURN_IF_ERROR(PlacePartitions(job_.partitioner.placement, ps_count,
                                  PartitionBytes(state_.variables, placed), placed));
  return placed;
}

std::optional<JobState> JobRecord::BeginWrite(bool claiming) {
  if (!writer_.Begin(claiming)) return std::nullopt;
  return state_;
}

bool JobRecord::EndWrite(const absl::Status& status, int64_t now_ms) {
  writer_.End(status, now_ms);
  if (!status.ok() || fixed_ || !begun()) return false;
  fixed_ = true;
  return true;
}

}  // namespace paracord
