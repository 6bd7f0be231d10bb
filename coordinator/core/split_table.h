// The splits (or lanes) of one epoch: which are left to do, and which sessions lease them. Does no
// I/O; owned by the core. Reports of workers only steer leases: the core closes an epoch by the
// ledgers (CoversAll), never because of reports.
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
  uint32_t next = 0;  // the first batch not reported yet
  uint32_t end = 0;   // one past the last batch; without lanes the end of the split
  int64_t granted_ms = 0;
  int64_t progress_ms = 0;  // when the worker last reported progress; at first granted_ms
  bool backup = false;      // a second lease of a lane, for one round
};

class SplitTable {
 public:
  // The table of an epoch of `batches` batches; splits of `plan` beyond them are not in it.
  SplitTable(uint64_t epoch, uint64_t batches, const DataPlan& plan);

  uint64_t epoch() const { return epoch_; }
  uint64_t batches() const { return batches_; }

  // Takes the state of the ledgers: next[s] is the first batch of split s that some trained
  // partition lacks; for splits beyond the end of `next` it is batch 0. Reports that said more no
  // longer count.
  void Load(const std::vector<uint32_t>& next);
  // Remembers what has been reported: the ledgers that the core is asking for will contain it.
  void LedgersAsked();
  // A lane of which `session` reported batches that the ledgers should contain and do not.
  // `session` 0: earlier ledgers contained the batches.
  struct Unfounded {
    uint64_t lane = 0;
    uint64_t session = 0;
  };
  // Returns the lanes where `next`, from the ledgers, is behind the reports that came before
  // LedgersAsked. Up to `pending` batches of each lane may be missing, because a ps has received
  // them and not yet entered them in its ledger.
  std::vector<Unfounded> UnfoundedIn(const std::vector<uint32_t>& next, uint32_t pending) const;
  // Whether every split is done as far as ledgers and reports say.
  bool AllDone() const { return open_splits_ == 0; }

  // Whether there is a split that is neither done nor leased.
  bool HasFree() const { return !free_.empty() || splits_.size() < count_; }
  // Leases the first split that is neither done nor leased nor in `withheld`; nullopt if there is
  // none. The caller adds the rejected batches to the lease. Ids and times of leases have to ascend
  // from one grant to the next.
  std::optional<Lease> Grant(uint64_t lease_id, uint64_t session, int64_t now_ms,
                             const std::set<uint64_t>& withheld = {});
  // Leases a free lane up to but without batch `end`, at least for one batch, and at most to the
  // end of the lane.
  Lease GrantLane(uint64_t lane, uint64_t lease_id, uint64_t session, int64_t now_ms, uint32_t end);
  // Adds a second lease to a lane that another session holds, for the batch of `round` alone.
  Lease GrantBackup(uint64_t lane, uint64_t lease_id, uint64_t session, int64_t now_ms,
                    uint32_t round);
  // Moves the end of a lane's lease to `end`, but not beyond the end of the lane, and never back.
  Lease Extend(LeaseState& lease, uint32_t end);
  // Adds a second lease to a split not in `withheld` that one other session alone has leased, for
  // at least `age_ms`: the split with the oldest such lease; nullopt if there is none. Two leases
  // of a split do no harm, because ledgers drop duplicate pushes.
  std::optional<Lease> GrantAgain(uint64_t lease_id, uint64_t session, int64_t now_ms,
                                  int64_t age_ms, const std::set<uint64_t>& withheld = {});

  // The unfinished lanes that are furthest behind and have a single lease, without progress since
  // `since_ms`.
  std::vector<uint64_t> LanesBehind(int64_t since_ms) const;
  // Whether the lane is not done and has exactly one lease, held by another session.
  bool IsWithAnother(uint64_t lane, uint64_t session) const;
  // Whether IsWithAnother, and the lane is furthest behind.
  bool IsBehindWithAnother(uint64_t lane, uint64_t session) const {
    return splits_[lane].next == least() && IsWithAnother(lane, session);
  }

  // Null if there is no such lease any more. The pointer is valid until a lease is granted or ends.
  LeaseState* Find(uint64_t lease_id);
  // Takes a worker's report that all partitions have entered all batches of the split below `next`.
  // The report is only advice.
  void Progress(LeaseState& lease, uint32_t next);
  void End(uint64_t lease_id);
  void EndAllOf(uint64_t split);
  // Ends the leases of a session except those with an id in `held`, and returns the ended leases.
  std::vector<LeaseState> EndSession(uint64_t session, const std::set<uint64_t>& held = {});

  const absl::btree_map<uint64_t, LeaseState>& leases() const { return leases_; }
  // The greatest end of a lease, as a batch number in its split; 0 if there are no leases.
  uint32_t LeasedTo() const;
  uint64_t LeasesOf(uint64_t session) const;            // number of its leases
  std::vector<uint64_t> IdsOf(uint64_t session) const;  // ids of its leases
  // Whether the session holds a lease of a split other than `split`.
  bool HasOtherThan(uint64_t session, uint64_t split) const;
  // How many batches of the epoch are done as far as ledgers and reports say.
  uint64_t batches_done() const;

  bool has_lanes() const { return plan_.lanes() > 0; }
  // The functions from here on are for epochs with lanes, whose SplitTable has all lanes from its
  // construction on.
  uint64_t splits() const { return count_; }
  bool IsFree(uint64_t lane) const { return free_.contains(lane); }
  const std::set<uint64_t>& free_lanes() const { return free_; }
  // How often a split or lane has become free.
  uint64_t freed() const { return freed_; }
  uint32_t NextOf(uint64_t lane) const { return splits_[lane].next; }
  // How many batches of the lane all partitions have entered, by the last Load.
  uint32_t EnteredOf(uint64_t lane) const { return splits_[lane].entered; }
  uint32_t EndOf(uint64_t lane) const { return splits_[lane].end; }
  bool IsDone(uint64_t lane) const { return splits_[lane].next >= splits_[lane].end; }
  // front: the round that the lane furthest ahead has reached. least: the round that the unfinished
  // lane furthest behind has reached; front() if all lanes are done.
  uint32_t front() const;
  uint32_t least() const;
  // Returns for each lane the session with its oldest lease; 0: the lane is not leased.
  std::vector<uint64_t> Holders() const;

 private:
  struct Split {
    uint32_t next = 0;
    uint32_t end = 0;
    uint32_t holders = 0;   // number of leases
    uint32_t entered = 0;   // `next` by the last Load
    uint64_t reporter = 0;  // the session that reported `next`; 0: the ledgers did
  };
  // Adds the next split of the epoch to splits_; false if all are in it.
  bool Begin();
  Lease MakeLease(LeaseState lease);
  Lease ToProto(const LeaseState& lease) const;
  void SetNext(uint64_t split, uint32_t next);

  const uint64_t epoch_;
  const uint64_t batches_;
  const DataPlan plan_;
  const uint64_t count_;  // number of splits
  // The splits of the epoch up to the last one added. An epoch may have millions, so splits are
  // added when they are needed.
  std::vector<Split> splits_;
  uint64_t open_splits_;     // number of splits not done, including those not in splits_
  std::set<uint64_t> free_;  // indices in splits_ of those not done and not leased
  uint64_t freed_ = 0;
  std::vector<Split> asked_;  // splits_ at the last LedgersAsked; without lanes empty
  // Thousands of leases, some looked up at every report: a B-tree has few cache misses.
  absl::btree_map<uint64_t, LeaseState> leases_;
  absl::btree_set<std::pair<uint64_t, uint64_t>> leases_of_;  // (session, lease)
};

// Returns for each split of `epoch` the first batch that some ledger lacks, up to the last split
// that all ledgers have reached; each later split lacks batch 0 in some ledger. Empty if there is
// no ledger.
std::vector<uint32_t> LeastNext(const std::vector<const Ledger*>& ledgers, uint64_t epoch,
                                uint64_t batches, const DataPlan& plan);

// Whether `next`, from LeastNext, says that every ledger has all of the epoch's batches.
bool CoversAll(const std::vector<uint32_t>& next, uint64_t batches, const DataPlan& plan);

// One past the last batch that some ledger has entered, counted across epochs in the order of the
// plan; 0 if there is none.
uint64_t BatchesReached(const std::vector<const Ledger*>& ledgers, const DataPlan& plan);

// The number of epochs up to the last one of which some ledger has entered a batch.
uint64_t EpochsBegun(const std::vector<const Ledger*>& ledgers, uint64_t splits_per_epoch);

}  // namespace paracord
