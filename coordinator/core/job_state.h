// job.state-<generation> in the job's directory: the state of the coordinator that the ledgers do
// not contain. Written whole and atomically before anybody acts on the state. If the file is lost,
// a job with a checkpoint goes on from the newest manifest, but may repeat evaluations.
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
inline constexpr char kAddressName[] = "coordinator.address";  // the newest leader's address
inline constexpr char kSummaryName[] = "summary.json";
// The summary that a job had when it was done, if the job was later given more to do.
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
  uint64_t rollbacks = 0;  // synchronous training: times that all ps loaded a checkpoint
  uint64_t backups = 0;    // second leases of lanes that a round waited for
  uint64_t waited_ms = 0;  // sum of the times that workers waited for other workers' lanes
  uint64_t coordinator_recoveries = 0;
  uint64_t checkpoints = 0;
  int64_t wall_ms = 0;            // time in which a coordinator led the job
  int64_t training_ms = 0;        // time in which batches could be applied
  uint64_t training_samples = 0;  // examples of the batches applied within training_ms
  int64_t first_step_ms = -1;     // from a coordinator's start to the first batch; -1: none yet
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
  bool nonfinite = false;  // the last failure was a non-finite loss or gradient
};

struct JobState {
  std::string run_id;
  std::string replaced_run_id;  // the run, not yet trained, that run_id replaced; "": none
  std::string job_json;         // the job as canonical JSON
  DataPlan plan;
  std::vector<VariableSpec> variables;
  std::vector<PartitionSpec> partitions;  // without the ps that hold them
  std::optional<Layout> layout;           // nullopt: the placement rule applies (layout.h)
  std::vector<std::string> metric_names;
  std::vector<std::string> outputs;           // outputs of the user's program (JobFacts)
  std::vector<EvaluationResult> evaluations;  // ordered by epoch
  std::optional<StopDecision> stop;
  std::vector<RejectedBatch> rejected;
  JobCounters counters;
  // The results of EpochHistory::Epochs and SaveOpen; null: the file is of a version without them.
  nlohmann::json history, history_open;
};

std::string JobStateToText(const JobState& state);
// `path` is named in errors.
absl::StatusOr<JobState> ParseJobState(const std::string& text, const std::string& path);

}  // namespace paracord
