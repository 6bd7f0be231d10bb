// Failed batches, and deaths of workers while they computed a batch. BatchFailures counts and
// decides; Failures tells it of failures. A failure that a worker reports counts at once, a death
// after three steps:
//
//   1. Note: a worker died while it held leases. The worker's last report may be older than the
//      ledgers, so the splits of these leases are withheld until all ledgers have been read.
//   2. Place: the ledgers tell which batch the worker was computing. The split pauses, and the next
//      process of the same task leaves the split to other workers for a while.
//   3. Judge: other sessions, open before the worker got its leases, are heard again or end. The
//      death counts if one is heard, and so outlived the worker.
//
// Owned by the core, which reads the ledgers and acts on verdicts.
//
// Invariants: a death is in one step only. A death is dropped if a ps is lost before step 2 (nobody
// can tell which batch the worker was computing), if training is interrupted between steps 2 and 3,
// or if the epoch ends. A rejection is decided by ledgers that were read after the rejection was
// requested.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/batch_failures.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/split_table.h"

namespace paracord {

// A batch as people read it.
std::string NameOf(const BatchId& batch);

// A worker that died while it held leases.
struct WorkerDeath {
  std::string task;
  std::string why;
  std::vector<LeaseState> leases;  // in the order in which the worker computes them
  int64_t died_ms = 0;
  // Sessions that existed before the first of `leases` was granted, by what they had at the death:
  std::vector<uint64_t> busy;  // those with a lease of another split than that of this lease
  std::vector<uint64_t> idle;  // all others
  BatchId batch;               // the batch that the worker was computing; set by PlaceDeaths
};

// The order in which a worker computes the batches of its leases. kAsGranted: lease after lease.
// kByRound, for lanes: always the batch of the lowest round that the ledgers lack, at equal rounds
// that of the first lane. kByReportedRound also uses the worker's own reports: in synchronous
// training a push may be in the sum of an incomplete round, which ledgers do not show.
enum class LeaseOrder { kAsGranted, kByRound, kByReportedRound };

class Failures {
 public:
  using Verdict = BatchFailures::Verdict;

  // `rejected` are the batches that earlier coordinators rejected.
  Failures(FailuresSpec spec, const std::vector<RejectedBatch>& rejected, Effects& effects);

  // The newest failure or death, for people; empty if there was none.
  const std::string& last() const { return last_; }
  const BatchFailures& counts() const { return counts_; }

  // A worker reports that a batch failed. `other_worker`: another could try the batch.
  Verdict Add(const BatchId& batch, FailureKind kind, const std::string& task, bool other_worker,
              const std::string& message);

  // The user's program of a worker died and was restarted; the worker computes its batch again.
  void NoteLoss(const std::string& task, const std::string& why);
  void NoteDeath(WorkerDeath death) { noted_.push_back(std::move(death)); }
  // The ledgers are being read: they will place the deaths noted so far and decide the rejections
  // that are pending now.
  void LedgersAsked();
  // A ps was lost, so nobody can tell which batches the dead workers were computing.
  void LedgersLost();
  // The ledgers have been read: of split s of `epoch` they have entered the batches before next[s].
  // Finds the batch that each dead worker was computing, by `order`.
  void PlaceDeaths(uint64_t epoch, const std::vector<uint32_t>& next, int64_t now_ms,
                   LeaseOrder order = LeaseOrder::kAsGranted);
  struct Judged {
    Verdict verdict;
    uint64_t split;
  };
  // Counts the deaths of which it is known whether a session outlived them: a session that is heard
  // half a second after the death or later did. `heard_ms` returns when a session was last heard;
  // nullopt: the session is over.
  std::vector<Judged> JudgeDeaths(
      const std::function<std::optional<int64_t>(uint64_t session)>& heard_ms);
  // Training is interrupted: deaths that are not judged yet do not count.
  void ForgetUnjudged() { placed_.clear(); }
  // Forgets all deaths and pauses, because the epoch is over.
  void ForgetDeaths();

  // Returns the splits of `epoch` of which `task` may not get a lease yet. `others`: whether other
  // sessions are open that could take the split at which a process of `task` died.
  std::set<uint64_t> Withheld(uint64_t epoch, const std::string& task, bool others,
                              int64_t now_ms) const;

  // Decides by `ledgers` the rejections that were pending at LedgersAsked. The caller guarantees
  // that no push of these batches is in flight. `by_all_or_none`: a batch that any partition has
  // entered is not rejected. True if a batch is rejected by this call: the caller then writes
  // job.state.
  bool Decide(const std::vector<const Ledger*>& ledgers, uint64_t splits_per_epoch,
              bool by_all_or_none = false);
  // job.state has been written since the last Decide.
  void Saved() { counts_.Saved(); }
  // Forgets the failures of epochs before `epoch`.
  void ForgetBefore(uint64_t epoch) { counts_.ForgetBefore(epoch); }
  // Forgets everything, because a new run begins.
  void Forget();

 private:
  // Returns the lease whose next batch the dead worker was computing, judged by the ledgers; null
  // if the ledgers have entered all batches of `leases`.
  const LeaseState* WorkedOn(std::vector<LeaseState>& leases, uint64_t epoch,
                             const std::vector<uint32_t>& next, LeaseOrder order) const;

  struct Pause {
    int64_t until_ms = 0;         // nobody may compute the split before this time
    std::string task;             // the task whose process died while it computed the split
    int64_t others_until_ms = 0;  // before this time only other tasks may compute the split
  };

  Effects& effects_;
  BatchFailures counts_;
  std::string last_;
  std::vector<WorkerDeath> noted_;    // deaths since the last LedgersAsked
  std::vector<WorkerDeath> asked_;    // deaths that the ledgers being read will place
  std::vector<WorkerDeath> placed_;   // deaths with a known batch
  std::map<uint64_t, Pause> pauses_;  // key: split of the epoch
  std::vector<BatchId> pending_;      // rejections that the ledgers being read will decide
};

}  // namespace paracord
