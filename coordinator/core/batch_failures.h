// The `failures` policy: counts what went wrong with each batch and decides when to give it up.
// Pure; owned by the core. Nothing is classified by the text of a message.
//
// A rejection takes three steps: Add requests it, Decide makes it (the core calls Decide when no
// push of the batch can be in flight and the ledgers show whether a partition has applied it), and
// Saved reports that job.state has it. The core announces a rejection only after Saved, so all
// partitions reject a batch or none does, whichever process dies in between. Splits with a
// rejection on its way are withheld: nobody may compute them.
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

// A batch fails in one of these ways. kLimit says nothing of the batch: a message or a memory is
// too small for it, or a program cannot do what it asks.
enum class FailureKind { kData, kNonFinite, kShape, kLimit };

// Who outlived a worker that died while it computed a batch. The death says something of the batch
// only if others lived: machines are taken away, and networks cut, many at once.
enum class Outlived { kByNobody, kByIdleWorkers, kByBusyWorkers };

class BatchFailures {
 public:
  // `rejected`: by earlier coordinators.
  explicit BatchFailures(FailuresSpec spec, const std::vector<RejectedBatch>& rejected = {});

  enum class Verdict { kTryAgain, kReject, kFailJob };
  // `other_worker`: there is another worker that could try. A batch is given up after `per_batch`
  // failures, on two workers where there are two. kReject: it is pending now. Limits are counted
  // by themselves: as many of them fail the job, and no batch is rejected for them.
  Verdict Add(const BatchId& batch, FailureKind kind, const std::string& worker, bool other_worker);

  // A worker died that computed the batch. Returns how long nobody should compute it again: longer
  // after each death, and not at all after the first.
  int64_t PauseAfterDeath(const BatchId& batch);
  // A death is no failure: a batch is given up after `deaths_per_batch` of them that workers on
  // other batches outlived. Of those that only idle workers outlived three count for one.
  Verdict AddDeath(const BatchId& batch, Outlived outlived);

  std::vector<BatchId> Pending() const;
  // A pending batch that some partition has entered, and that was tried again and failed as often
  // once more; nullopt if there is none.
  std::optional<BatchId> PendingAgain() const;
  // Decides a pending batch; `entered` says that some partition has applied it. An applied batch is
  // computable and is tried again; after as many further failures (deaths of workers excluded) the
  // remaining partitions reject it, unless `by_all_or_none`. True if the batch is rejected now.
  bool Decide(const BatchId& batch, bool entered, bool by_all_or_none = false);
  // Every partition has a pending batch: whatever was counted says nothing any more.
  void Forget(const BatchId& batch) { counts_.erase(KeyOf(batch)); }
  // job.state has been written since the last Decide.
  void Saved();
  // Splits of the epoch with a batch that is pending, or decided and not saved.
  std::set<uint64_t> Withheld(uint64_t epoch) const;

  // Batches of the split that are to be entered without gradients, ascending.
  std::vector<uint32_t> Rejected(uint64_t epoch, uint64_t split) const;
  // How many batches of the epoch have been given up.
  uint64_t RejectedIn(uint64_t epoch) const;
  // True if a batch has been given up because of a non-finite loss or gradient.
  bool RejectedNonFinite() const;
  // All that were decided, for job.state.
  std::vector<RejectedBatch> All() const;

  // Forgets epochs before this one.
  void ForgetBefore(uint64_t epoch);

 private:
  using Key = std::tuple<uint64_t, uint64_t, uint32_t>;
  enum class State { kCounted, kPending, kDecided, kRejected };
  struct Count {
    uint32_t failures = 0;
    uint32_t limits = 0;
    uint32_t deaths = 0;        // all
    uint32_t death_thirds = 0;  // counted deaths, in thirds
    std::set<std::string> workers;
    std::set<std::string> limited_workers;
    bool nonfinite = false;  // the last failure
    bool entered = false;    // some partition has it
    State state = State::kCounted;
  };

  Verdict GiveUp(Count& count) const;
  static Key KeyOf(const BatchId& batch) { return {batch.epoch(), batch.split(), batch.batch()}; }
  static BatchId BatchOf(const Key& key);

  const FailuresSpec spec_;
  std::map<Key, Count> counts_;
};

}  // namespace paracord
