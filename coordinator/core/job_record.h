// The identity and state of a job beyond its job file: run id, data plan, variables, partitions,
// and the counters that outlive a coordinator. A new job begins with the facts that its first
// workers find in the model and the files; another job is restored from job.state, or from the
// newest manifest if job.state is missing. Owned by the core, which writes the record into
// job.state together with the state of other types.
//
// Invariants: once begun, a job has a run id and keeps its run, plan, variables and partitions;
// only the holders of partitions may change (move.h). The record is fixed, and may be acted on,
// once job.state has been written in a generation of this coordinator: before, an older coordinator
// may still write a different record.
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

// Says why the job cannot be shortened to `batches` batches: it has come to batch `reached`, as
// `where` says ("in checkpoint NAME").
std::string TooFewBatches(const Job& job, uint64_t batches, uint64_t reached,
                          const std::string& where);

class JobRecord {
 public:
  explicit JobRecord(const Job& job);

  // Restore the state that an earlier coordinator saved, or the job of a checkpoint.
  void Restore(JobState saved);
  void Restore(const Manifest& newest);
  // Begins the job as `run_id` with the facts of workers. `computing` is the number of devices: the
  // workers that the cluster names times the devices of each. An error says why such a job is
  // impossible.
  absl::Status Begin(const std::string& run_id, const JobFacts& facts, size_t computing);
  // Forgets an untrained job, so that Begin can be called again. Keeps the id of the replaced run:
  // ps may hold its partitions until they load, perhaps under the next coordinator.
  void Forget();
  // Why a worker that found these facts cannot take part in the job; nullopt if it can.
  std::optional<std::string> Differs(const JobFacts& facts) const;
  // Takes the names of metrics and outputs from `facts` if the job was restored without them.
  void NameMetrics(const JobFacts& facts);

  bool begun() const { return !state_.run_id.empty(); }
  bool fixed() const { return fixed_; }
  const std::string& run_id() const { return state_.run_id; }
  // The run that this run replaced when the job began anew; "" if there is none.
  const std::string& replaced_run_id() const { return state_.replaced_run_id; }
  const std::string& job_json() const { return state_.job_json; }
  // Identifies the job: a worker that names a different fingerprint has a different job.
  uint64_t fingerprint() const { return fingerprint_; }
  const DataPlan& plan() const { return state_.plan; }
  const std::vector<VariableSpec>& variables() const { return state_.variables; }
  const std::vector<std::string>& metric_names() const { return state_.metric_names; }
  const JobCounters& counters() const { return state_.counters; }
  JobCounters& counters() { return state_.counters; }
  JobExtent Extent(const std::optional<StopDecision>& stop) const;
  // Returns the partitions with their ps: by the layout if the job has one, else by the placement
  // rule on `ps_count` ps. An error: the rule cannot place them.
  absl::StatusOr<std::vector<PartitionSpec>> Placed(uint32_t ps_count) const;
  // The layout of a job that has moved or has copies; nullopt: the placement rule applies.
  const std::optional<Layout>& layout() const { return state_.layout; }
  void SetLayout(std::optional<Layout> layout) { state_.layout = std::move(layout); }

  // Sets the number of recoveries that job.state will contain; returns whether it is unchanged.
  bool SaysRecoveries(uint64_t recoveries) {
    return std::exchange(recoveries_, recoveries) == recoveries;
  }

  // The record has changed. Returns the state to write to job.state now; nullopt: the change is
  // written later.
  std::optional<JobState> BeginWrite(bool claiming);
  // The write under way has ended. True if the job becomes fixed by it.
  bool EndWrite(const absl::Status& status, int64_t now_ms);
  const StateWriter& writer() const { return writer_; }

 private:
  const Job& job_;
  JobState state_;  // without the state of other types
  uint64_t fingerprint_;
  bool fixed_ = false;
  uint64_t recoveries_ = 0;
  StateWriter writer_;
};

}  // namespace paracord
