// The record says what the job is, beyond what its author asks for: its run id, data plan,
// variables and partitions, and the counters that outlive a coordinator. A new job is begun by the
// facts that its first workers find in the model and the files; another is restored from job.state,
// or from the newest manifest where that is missing. Owned by the core, which writes the record
// into job.state, with what the other types save there.
//
// Invariants: a job that is begun has a run id, and keeps its run, plan, variables and partitions;
// which ps hold these may change (move.h).
// It is fixed, and acted on, as soon as job.state has it in a generation of this coordinator: an
// older coordinator may still write its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "config/job.h"
#include "coordinator/core/job_extent.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/layout.h"
#include "coordinator/core/state_writer.h"
#include "storage/checkpoint.h"

namespace paracord {

// Says why a job cannot go on that is to have fewer batches than `where` it has come to.
std::string TooFewBatches(const Job& job, uint64_t batches, uint64_t reached,
                          const std::string& where);

class JobRecord {
 public:
  explicit JobRecord(const Job& job);

  // Takes what an earlier coordinator has saved, or what a checkpoint tells of its job.
  void Restore(JobState saved);
  void Restore(const Manifest& newest);
  // Begins the job by what workers have found, as `run_id`. So many devices are `computing`: the
  // workers that the cluster names times the devices of each. An error says why there can be no
  // such job.
  absl::Status Begin(const std::string& run_id, const JobFacts& facts, size_t computing);
  // A job that has trained nothing is to begin anew. The record is as it was before Begin, but for
  // the run that is replaced: ps hold it until they are loaded, perhaps by the next coordinator.
  void Forget();
  // Why a worker that has found these facts cannot take part in the job; nullopt if it can.
  std::optional<std::string> Differs(const JobFacts& facts) const;
  // Takes the names of metrics and outputs from a worker where the job was restored without them.
  void NameMetrics(const JobFacts& facts);

  bool begun() const { return !state_.run_id.empty(); }
  bool fixed() const { return fixed_; }
  const std::string& run_id() const { return state_.run_id; }
  // The run that this one took the place of when the job began anew; "" if it did not.
  const std::string& replaced_run_id() const { return state_.replaced_run_id; }
  const std::string& job_json() const { return state_.job_json; }
  // Workers have this job if they name this fingerprint.
  uint64_t fingerprint() const { return fingerprint_; }
  const DataPlan& plan() const { return state_.plan; }
  const std::vector<VariableSpec>& variables() const { return state_.variables; }
  const std::vector<std::string>& metric_names() const { return state_.metric_names; }
  const JobCounters& counters() const { return state_.counters; }
  JobCounters& counters() { return state_.counters; }
  JobExtent Extent(const std::optional<StopDecision>& stop) const;
  // The partitions, each with the ps that hold it: by the layout of a job that has one, or else by
  // the rule, among so many ps. An error: they cannot be placed so.
  absl::StatusOr<std::vector<PartitionSpec>> Placed(uint32_t ps_count) const;
  // The layout of a job that has moved, or has copies; nullopt: the rule places its partitions.
  const std::optional<Layout>& layout() const { return state_.layout; }
  void SetLayout(std::optional<Layout> layout) { state_.layout = std::move(layout); }

  // Returns whether the newest write of job.state, or the one that is to follow now, is known to
  // say so many recoveries.
  bool SaysRecoveries(uint64_t recoveries) {
    return std::exchange(recoveries_, recoveries) == recoveries;
  }

  // The record has changed. Returns what of job.state it makes if that is to be written now.
  std::optional<JobState> BeginWrite(bool claiming);
  // The write under way has ended. True if the job is fixed by it.
  bool EndWrite(const absl::Status& status, int64_t now_ms);
  const StateWriter& writer() const { return writer_; }

 private:
  const Job& job_;
  JobState state_;  // without what other types save in it
  uint64_t fingerprint_;
  bool fixed_ = false;
  uint64_t recoveries_ = 0;
  StateWriter writer_;
};

}  // namespace paracord
