// The leases of splits or lanes that a worker has at hand, the next batch of each, and the order in
// which their batches are computed. Splits are worked on lease after lease, as they came. Of lanes
// the one that is furthest behind is next, and the first of those that are equally far: so a round
// that waits for this worker never waits behind a later one. Owned by the trainer, used on the
// loop. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord {

class LeaseQueue {
 public:
  explicit LeaseQueue(DataPlan plan) : plan_(std::move(plan)) {}

  // Takes in a lease. A lease of a lane whose id is at hand moves the end of that one on and may
  // name further rejected batches. One whose id has been at hand is ignored: the extension crossed
  // the report of its end.
  void Add(const Lease& lease);
  bool empty() const { return held_.empty(); }
  std::vector<uint64_t> Ids() const;
  // True if a further lease would not wait long: at most `left` batches of the only split are left,
  // or of each lane.
  bool EndsWithin(uint32_t left) const;

  // Chooses the lease that is worked on from now on, before each batch. The queue must not be
  // empty, here and below.
  void Choose();
  // The lease that is worked on, and its next batch.
  const Lease& current() const { return held_.front().lease; }
  uint32_t next() const { return held_.front().next; }
  BatchId batch() const;
  bool used_up() const { return next() >= current().end_batch(); }
  // Whether the next batch is to be entered without gradients, and the proof that it is, which is
  // empty if the lease has none.
  bool rejected() const;
  std::string rejection() const;
  // The proofs of the leases of batch() and the further lanes of its run, one after another.
  std::string Proofs(uint32_t run) const;
  void SetNext(uint32_t next) { held_.front().next = next; }
  // Ends the lease that is worked on.
  void Pop();
  // Chooses the lease of a lane whose next batch is this one; false: there is none any more.
  bool GoTo(const BatchId& batch);

  // Returns the next batch of a lane at hand that is of a round before this batch's, in its epoch.
  std::optional<BatchId> OfEarlierRound(const BatchId& batch) const;

  // Returns the batch at hand that is worked on after batch() and the further lanes of its run,
  // which may be a rejected one; nullopt: there is none.
  std::optional<BatchId> After(uint32_t run = 1) const;
  // Returns the batches at hand that are computed after batch() and the further lanes of its run,
  // in their order: at most `count`, and none from the first rejected one on.
  std::vector<BatchId> Following(size_t count, uint32_t run = 1) const;
  // Returns the `count` batches whose examples are probably needed after those of batch(). Where
  // the leases at hand end, they are those that an undisturbed worker alone would be given next;
  // they end with the epoch.
  std::vector<BatchId> Upcoming(size_t count) const;

 private:
  struct Held {
    Lease lease;
    uint32_t next = 0;  // batch
  };
  class Walk;

  bool lanes() const { return plan_.lanes() != 0; }

  const DataPlan plan_;
  std::deque<Held> held_;       // the first is worked on
  std::deque<uint64_t> ended_;  // of lanes: ids of the leases that ended last
};

}  // namespace paracord
