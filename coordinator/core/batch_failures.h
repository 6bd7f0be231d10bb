// The `failures` policy of the job: counts the failures of each batch and decides when to give a
// batch up (to reject the batch or fail the job). Owned by Failures (failures.h). Does no I/O.
// Failures are classified by kind, never by the text of a message.
//
// A rejection takes three steps. Add or AddDeath requests a rejection. Decide makes the rejection
// once no push of the batch can be in flight and the ledgers show whether a partition has applied
// the batch. Saved confirms that job.state contains the rejection. Workers and ps learn of a
// rejection only after Saved. So every partition that lacks the batch rejects it, or none does,
// whichever process dies in between. From the request until Saved no worker gets a lease of the
// batch's split.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "config/job.h"
#include "coordinator/core/job_state.h"
#include "proto/paracord.pb.h"

namespace paracord {

// How a batch failed. kLimit does not blame the batch: a message size or a memory limit is too
// small for the batch, or the user's program lacks a feature.
enum class FailureKind { kData, kNonFinite, kShape, kLimit };

// Who outlived a worker that died while it computed a batch. The death counts against the batch
// only if other workers lived on: a machine failure or a network cut takes many workers at once.
enum class Outlived { kByNobody, kByIdleWorkers, kByBusyWorkers };

class BatchFailures {
 public:
  // `rejected` are the batches that earlier coordinators rejected.
  explicit BatchFailures(FailuresSpec spec, const std::vector<RejectedBatch>& rejected = {});

  enum class Verdict { kTryAgain, kReject, kFailJob };
  // Counts a failure. A batch is given up after `per_batch` failures (FailuresSpec), of at least
  // two workers if another worker could try the batch (`other_worker`). kReject: a rejection is now
  // pending. Failures of kind kLimit have their own count: at `per_batch` they fail the job.
  Verdict Add(const BatchId& batch, FailureKind kind, const std::string& worker, bool other_worker);

  // Counts the death of a worker that was computing the batch. Returns for how many milliseconds no
  // worker should compute the batch: 0 after the first death, 250 after the second, then doubling
  // up to 10,000.
  int64_t PauseAfterDeath(const BatchId& batch);
  // Decides what a death means. A batch is given up after `deaths_per_batch` deaths that workers on
  // other batches outlived. A death that only idle workers outlived counts one third. Deaths do not
  // count once a partition is known to have entered the batch.
  Verdict AddDeath(const BatchId& batch, Outlived outlived);

  std::vector<BatchId> Pending() const;
  // Returns a batch with a pending rejection that a partition had entered earlier, or nullopt.
  std::optional<BatchId> PendingAgain() const;
  // Decides whether a batch with a pending rejection is rejected; true if the batch is. `entered`:
  // some partition has applied the batch, so the batch can be computed: its failures are forgotten,
  // and the batch is tried again. After `per_batch` further failures (not deaths) the partitions
  // that lack the batch reject it; with `by_all_or_none` the batch is tried again every time.
  bool Decide(const BatchId& batch, bool entered, bool by_all_or_none = false);
  // All partitions have entered a batch with a pending rejection: its failures no longer matter.
  void Forget(const BatchId& batch) { counts_.erase(KeyOf(batch)); }
  // job.state has been written since the last Decide.
  void Saved();
  // Splits of the epoch with a batch whose rejection is pending, or decided and not yet saved.
  std::set<uint64_t> Withheld(uint64_t epoch) const;

  // The split's rejected batches in job.state, ascending. Partitions enter them without gradients.
  std::vector<uint32_t> Rejected(uint64_t epoch, uint64_t split) const;
  // How many batches of the epoch are rejected; includes decisions that are not saved yet.
  uint64_t RejectedIn(uint64_t epoch) const;
  // Whether the last failure of any rejected batch was a non-finite loss or gradient.
  bool RejectedNonFinite() const;
  // All decided rejections, saved or not, for job.state.
  std::vector<RejectedBatch> All() const;

  // Forgets all epochs before `epoch`.
  void ForgetBefore(uint64_t epoch);

 private:
  using Key = std::tuple<uint64_t, uint64_t, uint32_t>;
  enum class State { kCounted, kPending, kDecided, kRejected };
  struct Count {
    uint32_t failures = 0;
    uint32_t limits = 0;
    uint32_t deaths = 0;        // all deaths of workers that were computing the batch
    uint32_t death_thirds = 0;  // deaths that count against the batch, in thirds
    std::set<std::string> workers;
    std::set<std::string> limited_workers;
    bool nonfinite = false;  // the last failure was kNonFinite
    bool entered = false;    // some partition has applied the batch
    State state = State::kCounted;
  };

  Verdict GiveUp(Count& count) const;
  static Key KeyOf(const BatchId& batch) { return {batch.epoch(), batch.split(), batch.batch()}; }
  static BatchId BatchOf(const Key& key);

  const FailuresSpec spec_;
  std::map<Key, Count> counts_;
};

}  // namespace paracord
