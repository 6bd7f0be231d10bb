// The leases of splits or lanes that a worker has at hand, the next batch of each, and the order in
// which the batches are computed. Splits are worked on lease after lease, as the leases came. The
// lane furthest behind is next (among equals, the first lane), so that a round never waits while
// this worker computes a later round. Owned by the trainer, used on the loop. No I/O.
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

  // Takes in a lease. A lease of a lane whose id is at hand extends the lane and may name further
  // rejected batches. A lease that has ended before is ignored: the extension crossed the report of
  // the end.
  void Add(const Lease& lease);
  bool empty() const { return held_.empty(); }
  std::vector<uint64_t> Ids() const;
  // Whether at most `left` batches remain of the only split, or of each lane, so that a further
  // lease would soon begin.
  bool EndsWithin(uint32_t left) const;

  // Chooses the current lease, before each batch. Here and below the queue must not be empty.
  void Choose();
  // The current lease and its next batch.
  const Lease& current() const { return held_.front().lease; }
  uint32_t next() const { return held_.front().next; }
  BatchId batch() const;
  bool used_up() const { return next() >= current().end_batch(); }
  // Whether the next batch is to be entered without gradients, and the proof of the rejection,
  // empty if the lease has none.
  bool rejected() const;
  std::string rejection() const;
  // Returns the proofs of the leases of batch() and of the further lanes of its run, one after
  // another.
  std::string Proofs(uint32_t run) const;
  void SetNext(uint32_t next) { held_.front().next = next; }
  // Ends the current lease.
  void Pop();
  // Makes the lease of a lane current whose next batch is `batch`; false: there is no such lease.
  bool GoTo(const BatchId& batch);

  // Returns the next batch of a lane at hand whose round in the epoch comes before the round of
  // `batch`.
  std::optional<BatchId> OfEarlierRound(const BatchId& batch) const;

  // Returns the batch at hand that follows batch() and the further lanes of its run, rejected or
  // not; nullopt: there is none.
  std::optional<BatchId> After(uint32_t run = 1) const;
  // Returns at most `count` batches at hand to compute after batch() and the further lanes of its
  // run, in order, up to the first rejected batch.
  std::vector<BatchId> Following(size_t count, uint32_t run = 1) const;
  // Returns the `count` batches whose examples are probably needed after batch(). Where the leases
  // at hand end, assumes that this worker computes the rest of the epoch alone.
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
  std::deque<uint64_t> ended_;  // ids of leases of lanes that ended lately
};

}  // namespace paracord
