// Batches that failed in this epoch, and workers that died while they computed one. BatchFailures,
// which lives here, counts and decides; Failures feeds BatchFailures: a failure reported by a
// worker counts at once, a death in three steps.
//   1. Note: a worker died that held leases. What it reported last is older than what the ledgers
//      say, so its splits wait until all ledgers have been read.
//   2. Place: the ledgers say which batch it was at. The split pauses, and the worker's next life
//      has to leave it to others for a while.
//   3. Judge: others who were there before are heard again, so they outlived it, and it counts.
// Owned by the core, which reads the ledgers, and acts on verdicts.
//
// Invariants: a death is in one step only, and is dropped where nobody can say what the worker was
// at (a ps was lost) or the epoch is over. A rejection is decided by ledgers that were read after
// it was asked for.
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

// A batch for people.
std::string NameOf(const BatchId& batch);

// A worker that died while it held leases.
struct WorkerDeath {
  std::string task;
  std::string why;
  std::vector<LeaseState> leases;  // the oldest first
  int64_t died_ms = 0;
  // Sessions that were there before the oldest lease was granted.
  std::vector<uint64_t> busy;  // they held a lease of another split
  std::vector<uint64_t> idle;  // they held none
  BatchId batch;               // once it is known
};

// The order in which a worker computes the batches of its leases: lease after lease, or of lanes
// always the batch that is the furthest behind, and of the first lane where several are equally
// far. In synchronous training a push may be in the sum of a round that is not whole, which the
// ledgers do not say: the worker's own reports do.
enum class LeaseOrder { kAsGranted, kByRound, kByReportedRound };

class Failures {
 public:
  using Verdict = BatchFailures::Verdict;

  // `rejected`: by earlier coordinators.
  Failures(FailuresSpec spec, const std::vector<RejectedBatch>& rejected, Effects& effects);

  // The newest failure or death, for people; empty if there was none.
  const std::string& last() const { return last_; }
  const BatchFailures& counts() const { return counts_; }

  // A worker reports that a batch failed. `other_worker`: there is another one that could try.
  Verdict Add(const BatchId& batch, FailureKind kind, const std::string& task, bool other_worker,
              const std::string& message);

  // A worker's program was lost and started again, and its batch computed anew.
  void NoteLoss(const std::string& task, const std::string& why);
  void NoteDeath(WorkerDeath death) { noted_.push_back(std::move(death)); }
  // The ledgers are asked for: they will place the deaths so far and decide what is pending.
  void LedgersAsked();
  // A ps was lost, so nobody can say what the workers that died were at.
  void LedgersLost();
  // The ledgers asked for last say that splits of `epoch` are entered up to `next`. With lanes the
  // worker was at the batch that was the furthest behind, and else at its oldest lease.
  void PlaceDeaths(uint64_t epoch, const std::vector<uint32_t>& next, int64_t now_ms,
                   LeaseOrder order = LeaseOrder::kAsGranted);
  struct Judged {
    Verdict verdict;
    uint64_t split;
  };
  // Counts the deaths whose survivors are known. `heard_ms` says when a session was last heard;
  // nullopt if it is over.
  std::vector<Judged> JudgeDeaths(
      const std::function<std::optional<int64_t>(uint64_t session)>& heard_ms);
  // Training is interrupted: deaths that were not judged count for nothing.
  void ForgetUnjudged() { placed_.clear(); }
  // The epoch is over.
  void ForgetDeaths();

  // The splits of `epoch` of which a session of `task` is to get no lease yet. `others`: there are
  // other sessions.
  std::set<uint64_t> Withheld(uint64_t epoch, const std::string& task, bool others,
                              int64_t now_ms) const;

  // Decides the rejections that were pending when the ledgers were asked for. The caller guarantees
  // that no push of these batches is in flight. `by_all_or_none`: a batch that some partition has
  // entered is rejected by none. True if a batch is rejected now: job.state is to be written.
  bool Decide(const std::vector<const Ledger*>& ledgers, uint64_t splits_per_epoch,
              bool by_all_or_none = false);
  // job.state has been written since the last Decide.
  void Saved() { counts_.Saved(); }
  // Forgets the failures of epochs before this one.
  void ForgetBefore(uint64_t epoch) { counts_.ForgetBefore(epoch); }
  // Forgets everything: another run begins, whose batches are others.
  void Forget();

 private:
  // Of a dead worker's `leases`, the lease whose next batch the worker was computing, judged by the
  // ledgers; null if the ledgers have all of them.
  const LeaseState* WorkedOn(std::vector<LeaseState>& leases, uint64_t epoch,
                             const std::vector<uint32_t>& next, LeaseOrder order) const;

  struct Pause {
    int64_t until_ms = 0;         // nobody computes the split before
    std::string task;             // its last process died of the split: other tasks try first,
    int64_t others_until_ms = 0;  // until then
  };

  Effects& effects_;
  BatchFailures counts_;
  std::string last_;
  std::vector<WorkerDeath> noted_;    // since ledgers were last asked for
  std::vector<WorkerDeath> asked_;    // the ledgers that are being read tell
  std::vector<WorkerDeath> placed_;   // deaths with a known batch
  std::map<uint64_t, Pause> pauses_;  // key: split of the epoch
  std::vector<BatchId> pending_;      // rejections that the ledgers being read decide
};

}  // namespace paracord
