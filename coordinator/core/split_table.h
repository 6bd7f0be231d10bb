// The splits of one epoch, or its lanes: which are left to do, and who has leased which. Pure;
// owned by the core. Reports of workers only move work about: an epoch is complete when Load() from
// all ledgers says so, never because of reports.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "proto/paracord.pb.h"

namespace paracord {

struct LeaseState {
  uint64_t id = 0;
  uint64_t session = 0;
  uint64_t split = 0;
  uint32_t next = 0;  // last reported
  uint32_t end = 0;   // end of the lease; without lanes: of the split
  int64_t granted_ms = 0;
  int64_t progress_ms = 0;  // when `next` was last reported to be greater, or the grant
  bool backup = false;      // second lease of a lane, for one round
};

class SplitTable {
 public:
  // `batches` of the epoch are to be done; splits beyond them do not exist.
  SplitTable(uint64_t epoch, uint64_t batches, const DataPlan& plan);

  uint64_t epoch() const { return epoch_; }
  uint64_t batches() const { return batches_; }

  // Takes what the ledgers say: next[s] is the least first-missing batch of split s over all
  // trained partitions, 0 for what `next` does not reach. May move a split back.
  void Load(const std::vector<uint32_t>& next);
  // The ledgers are asked for, and will show what is reported so far.
  void LedgersAsked();
  // A lane of which batches were reported that no ledger can have missed, and by which session; 0:
  // nobody knows any more.
  struct Unfounded {
    uint64_t lane = 0;
    uint64_t session = 0;
  };
  // The lanes of which `next`, of ledgers that were asked for then, is behind what had been
  // reported before. So many batches of each lane may be `pending`: a ps has them and its ledger
  // does not.
  std::vector<Unfounded> UnfoundedIn(const std::vector<uint32_t>& next, uint32_t pending) const;
  // True if every split is done as far as is known here.
  bool AllDone() const { return open_splits_ == 0; }

  // Whether there is a split that is not done and not leased.
  bool HasFree() const { return !free_.empty() || splits_.size() < count_; }
  // The first split that is not done, not leased and not in `withheld`; nullopt if there is none.
  // The caller fills in which batches are rejected. Later leases have greater ids and times.
  std::optional<Lease> Grant(uint64_t lease_id, uint64_t session, int64_t now_ms,
                             const std::set<uint64_t>& withheld = {});
  // The same for one lane, which is free: the lease ends at `end` or with the lane.
  Lease GrantLane(uint64_t lane, uint64_t lease_id, uint64_t session, int64_t now_ms, uint32_t end);
  // A second lease of a lane that another session has, for the batch of `round` alone.
  Lease GrantBackup(uint64_t lane, uint64_t lease_id, uint64_t session, int64_t now_ms,
                    uint32_t round);
  // Moves the end of a lane's lease to `end`, or to the lane's if that is before.
  Lease Extend(LeaseState& lease, uint32_t end);
  // A second lease on the split with the oldest lease, if the lease is older than `age_ms` and
  // belongs to another session. Harmless: the ledgers drop duplicate pushes.
  std::optional<Lease> GrantAgain(uint64_t lease_id, uint64_t session, int64_t now_ms,
                                  int64_t age_ms, const std::set<uint64_t>& withheld = {});

  // The lanes that are furthest behind, block the others, and have a single lease without progress
  // since `since_ms`.
  std::vector<uint64_t> LanesBehind(int64_t since_ms) const;
  // Whether a lane is not done and has one lease, of another session.
  bool IsWithAnother(uint64_t lane, uint64_t session) const;
  // The same of a lane that is the furthest behind.
  bool IsBehindWithAnother(uint64_t lane, uint64_t session) const {
    return splits_[lane].next == least() && IsWithAnother(lane, session);
  }

  // Null if there is no such lease any more. It stays where it is until the next lease is granted
  // or ends.
  LeaseState* Find(uint64_t lease_id);
  // Advice: everything below `next` is entered everywhere.
  void Progress(LeaseState& lease, uint32_t next);
  void End(uint64_t lease_id);
  void EndAllOf(uint64_t split);
  // Ends the leases of a session, all but those in `held`; they are returned.
  std::vector<LeaseState> EndSession(uint64_t session, const std::set<uint64_t>& held = {});

  const absl::btree_map<uint64_t, LeaseState>& leases() const { return leases_; }
  // The batch before which all leases end; 0: there are none.
  uint32_t LeasedTo() const;
  uint64_t LeasesOf(uint64_t session) const;
  std::vector<uint64_t> IdsOf(uint64_t session) const;  // lease ids
  // Whether the session holds a lease of a split other than `split`. Used after a worker's death:
  // if workers on different splits survive, the dead worker's batch is to blame rather than a cause
  // common to all workers.
  bool HasOtherThan(uint64_t session, uint64_t split) const;
  uint64_t batches_done() const;

  bool has_lanes() const { return plan_.lanes() > 0; }
  // With lanes, all of which are here from the start:
  uint64_t splits() const { return count_; }
  bool IsFree(uint64_t lane) const { return free_.contains(lane); }
  const std::set<uint64_t>& free_lanes() const { return free_; }
  // How often a lane has become free.
  uint64_t freed() const { return freed_; }
  uint32_t NextOf(uint64_t lane) const { return splits_[lane].next; }
  // Up to which batch all partitions have the lane, by the ledgers that were read last.
  uint32_t EnteredOf(uint64_t lane) const { return splits_[lane].entered; }
  uint32_t EndOf(uint64_t lane) const { return splits_[lane].end; }
  bool IsDone(uint64_t lane) const { return splits_[lane].next >= splits_[lane].end; }
  // front: the round of the lane furthest ahead. least: the round of the unfinished lane furthest
  // behind, or the end of the longest lane if all are done.
  uint32_t front() const;
  uint32_t least() const;
  // By lane, the session that has leased it, for the longest time if there are two; 0: nobody.
  std::vector<uint64_t> Holders() const;

 private:
  struct Split {
    uint32_t next = 0;
    uint32_t end = 0;
    uint32_t holders = 0;
    uint32_t entered = 0;   // next, from the ledgers
    uint64_t reporter = 0;  // the session that said `next`; 0: the ledgers did
  };
  // Takes one more split into the table; false if it has them all.
  bool Begin();
  Lease MakeLease(LeaseState lease);
  Lease ToProto(const LeaseState& lease) const;
  void SetNext(uint64_t split, uint32_t next);

  const uint64_t epoch_;
  const uint64_t batches_;
  const DataPlan plan_;
  const uint64_t count_;  // number of splits
  // The first ones. An epoch may have millions, so those that nobody has begun are not here yet.
  std::vector<Split> splits_;
  uint64_t open_splits_;     // of `count_`
  std::set<uint64_t> free_;  // in splits_: open and not leased
  uint64_t freed_ = 0;
  std::vector<Split> asked_;  // lanes, when the ledgers were asked for
  // There are thousands, and every report looks some up: a tree of few levels misses the cache
  // least.
  absl::btree_map<uint64_t, LeaseState> leases_;
  absl::btree_set<std::pair<uint64_t, uint64_t>> leases_of_;  // (session, lease)
};

// For each split of `epoch` the least first-missing batch over the ledgers given, up to the last
// split that all of them have begun: it is 0 for those after it, and for all if there is no ledger.
std::vector<uint32_t> LeastNext(const std::vector<const Ledger*>& ledgers, uint64_t epoch,
                                uint64_t batches, const DataPlan& plan);

// Whether `next` of LeastNext says that no ledger lacks any of the epoch's batches.
bool CoversAll(const std::vector<uint32_t>& next, uint64_t batches, const DataPlan& plan);

// How far into the job some ledger has come: one past its last batch, in the order of the plan.
uint64_t BatchesReached(const std::vector<const Ledger*>& ledgers, const DataPlan& plan);

// Epochs of which some ledger has entered something, and all before them.
uint64_t EpochsBegun(const std::vector<const Ledger*>& ledgers, uint64_t splits_per_epoch);

}  // namespace paracord
