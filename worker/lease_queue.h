// The leases of splits or lanes that a worker has at hand, the next batch of each, and the order in
// which the batches are computed. Splits are worked on lease after lease, as the leases came. Lanes
// are worked on round after round, in a round by number, so that no round waits while this worker
// computes a later round. A run is several neighbouring lanes of a round whose sum is pushed. Owned
// by the trainer, used on the event loop. No I/O.
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

  // Takes in a lease. A lease of a lane with the id of a lease at hand extends that lease, and may
  // name further rejected batches. A lease of a lane that has ended is ignored: the coordinator
  // extended the lease before it learnt that the lease had ended.
  void Add(const Lease& lease);
  bool empty() const { return held_.empty(); }
  std::vector<uint64_t> Ids() const;
  // Whether at most `left` batches remain of each lease of a lane, or of the only lease of a split,
  // so that a further lease would soon begin.
  bool EndsWithin(uint32_t left) const;

  // Chooses the current lease; called before each batch. This and all functions below except
  // OfEarlierRound need a queue that is not empty.
  void Choose();
  // The current lease, and the number and id of its next batch.
  const Lease& current() const { return held_.front().lease; }
  uint32_t next() const { return held_.front().next; }
  BatchId batch() const;
  bool used_up() const { return next() >= current().end_batch(); }
  // Whether batch() was rejected, so that it is entered without gradients, and the proof of the
  // rejection; "" if the lease has no proof.
  bool rejected() const;
  std::string rejection() const;
  // Returns the proofs of the leases of batch() and of the further lanes of its run, concatenated.
  // `run`, here and below: the number of lanes in the run from batch() on.
  std::string Proofs(uint32_t run) const;
  void SetNext(uint32_t next) { held_.front().next = next; }
  // Removes the current lease.
  void Pop();
  // Makes the lease whose next batch is `batch` the current lease; false: there is none.
  bool GoTo(const BatchId& batch);

  // Returns a next batch of a lane at hand that is of the epoch of `batch`, but of an earlier
  // round; nullopt: there is none.
  std::optional<BatchId> OfEarlierRound(const BatchId& batch) const;

  // Returns the batch at hand that follows batch() and the further lanes of its run, rejected or
  // not; nullopt: there is none.
  std::optional<BatchId> After(uint32_t run = 1) const;
  // Returns at most `count` batches at hand that will be computed after batch() and the further
  // lanes of its run, in this order, and stops before the first rejected batch.
  std::vector<BatchId> Following(size_t count, uint32_t run = 1) const;
  // Returns at most `count` batches whose examples are probably needed after batch(), in order: as
  // if this worker alone computed the rest of its lanes, or, without lanes, of the epoch.
  std::vector<BatchId> Upcoming(size_t count) const;

 private:
  struct Held {
    Lease lease;
    uint32_t next = 0;  // the number of the next batch
  };
  class Walk;

  bool lanes() const { return plan_.lanes() != 0; }

  const DataPlan plan_;
  std::deque<Held> held_;       // the first is the current lease
  std::deque<uint64_t> ended_;  // ids of the last leases of lanes that Pop removed
};

}  // namespace paracord
