// The identity and state of a job beyond its job file: run id, data plan, variables, partitions,
// and the counters that outlive a coordinator. A new job begins with the facts that its first
// workers find in the model and the files; another job is restored from job.state, or from the
// newest manifest if job.state is missing. Owned by the core, which writes the record into
// job.state together with the state of other types.
//
// Invariants: once begun, a job has a run id and keeps its run, plan, variables and partitions
// until Forget; only the holders of partitions may change (move.h, copies.h). The record is fixed,
// and may be acted on, once job.state has been written in a generation of this coordinator: before
// that, an older coordinator may still write a different record.
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

// Returns the text that the job cannot be shortened to `batches` batches, because it has come to
// batch `reached` already. `where` says where that is seen, such as "in checkpoint NAME".
std::string TooFewBatches(const Job& job, uint64_t batches, uint64_t reached,
                          const std::string& where);

class JobRecord {
 public:
  explicit JobRecord(const Job& job);

  // Restores what an earlier coordinator saved in job.state, or in the newest checkpoint;
  // job_json() stays the JSON of the present job.
  void Restore(JobState saved);
  void Restore(const Manifest& newest);
  // Begins the job as `run_id` with the facts of workers. `computing` is the number of devices that
  // compute: the workers that the cluster names, times the devices of each. An error says why such
  // a job is impossible.
  absl::Status Begin(const std::string& run_id, const JobFacts& facts, size_t computing);
  // Forgets a job that is not trained yet, so that Begin can be called again. Keeps the id of the
  // forgotten run (replaced_run_id): ps may hold that run's partitions until their next Load,
  // perhaps under the next coordinator.
  void Forget();
  // Why a worker that found these facts cannot take part in the job; nullopt if it can.
  std::optional<std::string> Differs(const JobFacts& facts) const;
  // Takes the names of metrics or outputs from `facts` if the record has none.
  void NameMetrics(const JobFacts& facts);

  bool begun() const { return !state_.run_id.empty(); }
  bool fixed() const { return fixed_; }
  const std::string& run_id() const { return state_.run_id; }
  // The run that this run replaced when the job began anew; "" if there is none.
  const std::string& replaced_run_id() const { return state_.replaced_run_id; }
  const std::string& job_json() const { return state_.job_json; }
  // Identifies job_json(): a worker that names a different fingerprint has a different job.
  uint64_t fingerprint() const { return fingerprint_; }
  const DataPlan& plan() const { return state_.plan; }
  const std::vector<VariableSpec>& variables() const { return state_.variables; }
  const std::vector<std::string>& metric_names() const { return state_.metric_names; }
  const JobCounters& counters() const { return state_.counters; }
  JobCounters& counters() { return state_.counters; }
  JobExtent Extent(const std::optional<StopDecision>& stop) const;
  // Returns the partitions with the ps that hold them: by layout() if there is one, else by the
  // placement rule (placement.h) for `ps_count` ps. An error says why the rule cannot place them.
  absl::StatusOr<std::vector<PartitionSpec>> Placed(uint32_t ps_count) const;
  // The stored layout (layout.h); nullopt: the placement rule applies.
  const std::optional<Layout>& layout() const { return state_.layout; }
  void SetLayout(std::optional<Layout> layout) { state_.layout = std::move(layout); }

  // Notes how many recoveries the next write of job.state will contain; true if the previous call
  // named as many.
  bool SaysRecoveries(uint64_t recoveries) {
    return std::exchange(recoveries_, recoveries) == recoveries;
  }

  // The record has changed. Returns the state to write to job.state now. nullopt during another
  // write or a claim of a generation (`claiming`): the change is written after that.
  std::optional<JobState> BeginWrite(bool claiming);
  // The write under way has ended with `status`. True if this write fixes the job.
  bool EndWrite(const absl::Status& status, int64_t now_ms);
  const StateWriter& writer() const { return writer_; }

 private:
  const Job& job_;
  JobState state_;  // without what other types add to job.state
  uint64_t fingerprint_;
  bool fixed_ = false;
  uint64_t recoveries_ = 0;
  StateWriter writer_;
};

}  // namespace paracord
