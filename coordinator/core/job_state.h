// DIR/job.state-<generation>: the state of the coordinator that the ledgers do not contain. Written
// whole and atomically before anybody acts on the state. Losing the file repeats an evaluation,
// never a batch: every manifest contains enough to go on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/layout.h"
#include "nlohmann/json.hpp"
#include "proto/paracord.pb.h"

namespace paracord {

inline constexpr char kStatePrefix[] = "job.state-";           // followed by the generation
inline constexpr char kAddressName[] = "coordinator.address";  // where the newest leader listens
inline constexpr char kSummaryName[] = "summary.json";
// The summary of a finished job that was later given more to do.
inline constexpr char kDoneSummaryName[] = "summary.done.json";

struct EvaluationResult {
  uint64_t epoch = 0;  // counted from 0
  std::map<std::string, double> metrics;
};

// Counters that outlive a coordinator.
struct JobCounters {
  uint64_t computed = 0;        // batches whose gradients workers computed
  uint64_t duplicates = 0;      // computed batches that every partition dropped
  uint64_t program_losses = 0;  // restarts of the user's program
  uint64_t worker_recoveries = 0;
  uint64_t ps_recoveries = 0;
  uint64_t rollbacks = 0;  // synchronous training: all ps loaded a checkpoint
  uint64_t backups = 0;    // second leases of lanes that a round waited for
  uint64_t waited_ms = 0;  // time that workers waited for others' lanes, summed
  uint64_t coordinator_recoveries = 0;
  uint64_t checkpoints = 0;
  int64_t wall_ms = 0;
  int64_t training_ms = 0;        // time in which batches could be applied
  uint64_t training_samples = 0;  // in applied batches within training_ms, each counted once
  int64_t first_step_ms = -1;
};

// The decision to end the job early, after `epochs` epochs.
struct StopDecision {
  uint64_t epochs = 0;
  std::string reason;
};

// A batch that every partition enters without gradients, even after a restore.
struct RejectedBatch {
  uint64_t epoch = 0;
  uint64_t split = 0;
  uint32_t batch = 0;
  bool nonfinite = false;  // rejected because of a non-finite loss or gradient
};

struct JobState {
  std::string run_id;
  std::string replaced_run_id;  // an untrained run that a ps may still hold; "": none
  std::string job_json;         // the job as canonical JSON
  DataPlan plan;
  std::vector<VariableSpec> variables;
  std::vector<PartitionSpec> partitions;  // without the ps that hold them
  std::optional<Layout> layout;           // nullopt: the job has never moved and has no copies
  std::vector<std::string> metric_names;
  std::vector<std::string> outputs;           // outputs of the user's program (JobFacts)
  std::vector<EvaluationResult> evaluations;  // ordered by epoch
  std::optional<StopDecision> stop;
  std::vector<RejectedBatch> rejected;
  JobCounters counters;
  // EpochHistory's closed epochs and its other state; null: written by a version without a history.
  nlohmann::json history, history_open;
};

std::string JobStateToText(const JobState& state);
// `path` is used only in errors.
absl::StatusOr<JobState> ParseJobState(const std::string& text, const std::string& path);

}  // namespace paracord
