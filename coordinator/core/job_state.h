// DIR/job.state-<generation>: what the coordinator must not forget and the ledgers do not know.
// Written whole and atomically before anybody acts on it. Losing it repeats an evaluation, never a
// batch: what is needed to go on stands in every manifest too.
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

inline constexpr char kStatePrefix[] = "job.state-";           // and the generation that wrote it
inline constexpr char kAddressName[] = "coordinator.address";  // of the current or last leader
inline constexpr char kSummaryName[] = "summary.json";
// The summary of a job that was done, from when somebody went on with it.
inline constexpr char kDoneSummaryName[] = "summary.done.json";

struct EvaluationResult {
  uint64_t epoch = 0;  // epochs are counted from 0
  std::map<std::string, double> metrics;
};

// Counters that live longer than one coordinator.
struct JobCounters {
  uint64_t computed = 0;        // batches whose gradients workers computed
  uint64_t duplicates = 0;      // of `computed`: dropped by every partition
  uint64_t program_losses = 0;  // restarts of the user's program
  uint64_t worker_recoveries = 0;
  uint64_t ps_recoveries = 0;
  uint64_t rollbacks = 0;  // synchronous training: all ps loaded a checkpoint
  uint64_t backups = 0;    // leases of lanes that a round waited for, to a second worker
  uint64_t waited_ms = 0;  // summed over workers: waiting for lanes of another worker
  uint64_t coordinator_recoveries = 0;
  uint64_t checkpoints = 0;
  int64_t wall_ms = 0;
  int64_t training_ms = 0;        // time in which batches could be applied
  uint64_t training_samples = 0;  // in applied batches within training_ms, each counted once
  int64_t first_step_ms = -1;
};

// The decision to end the job early, when the batches below `epochs` epochs are done.
struct StopDecision {
  uint64_t epochs = 0;
  std::string reason;
};

// To be entered without gradients by every partition, also by one that is restored.
struct RejectedBatch {
  uint64_t epoch = 0;
  uint64_t split = 0;
  uint32_t batch = 0;
  bool nonfinite = false;  // why
};

struct JobState {
  std::string run_id;
  std::string replaced_run_id;  // an untrained run that a ps may still hold; "": none
  std::string job_json;         // canonical
  DataPlan plan;
  std::vector<VariableSpec> variables;
  std::vector<PartitionSpec> partitions;  // without their place
  std::optional<Layout> layout;           // where the partitions are; nullopt: the job never moved
  std::vector<std::string> metric_names;
  std::vector<std::string> outputs;           // of the user's program, from JobFacts
  std::vector<EvaluationResult> evaluations;  // ordered by epoch
  std::optional<StopDecision> stop;
  std::vector<RejectedBatch> rejected;
  JobCounters counters;
  // EpochHistory's closed epochs and its remaining state; null: written by a version without a
  // history.
  nlohmann::json history, history_open;
};

std::string JobStateToText(const JobState& state);
// `path` is for the errors alone.
absl::StatusOr<JobState> ParseJobState(const std::string& text, const std::string& path);

}  // namespace paracord
