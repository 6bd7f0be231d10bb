// The leases that a worker has at hand and has not finished, the next batch of each lease, and the
// order in which the batches are computed. Without lanes: lease after lease, in the order in which
// the leases came. With lanes: round after round, and the lanes of a round in the order of their
// numbers, so that no round waits while this worker computes a later round. A run is several
// neighbouring lanes of a round whose gradients are pushed as one sum. Owned by the trainer, used
// on the event loop. No I/O.
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

  // Adds a lease. With lanes: a lease with the id of a lease at hand extends that lease, and may
  // name further rejected batches; a lease with the id of a lease that Pop has removed is ignored,
  // because the coordinator extended the lease before it learnt of the end.
  void Add(const Lease& lease);
  bool empty() const { return held_.empty(); }
  std::vector<uint64_t> Ids() const;
  // Whether at most `left` batches remain of each lease at hand. Without lanes this is false unless
  // exactly one lease is at hand.
  bool EndsWithin(uint32_t left) const;

  // Makes the lease whose batch comes next the current lease; called before each batch. This
  // function and all below, except GoTo and OfEarlierRound, need a queue that is not empty.
  void Choose();
  // Return the current lease, and the number and the id of its next batch.
  const Lease& current() const { return held_.front().lease; }
  uint32_t next() const { return held_.front().next; }
  BatchId batch() const;
  bool used_up() const { return next() >= current().end_batch(); }
  // Return whether batch() was rejected, so that it is to be entered without gradients, and the
  // coordinator's proof of that; "" if the lease has no such proof.
  bool rejected() const;
  std::string rejection() const;
  // Returns the proofs (Lease.proof) of the leases of a run's lanes, concatenated. `run`, here and
  // below: how many lanes the run has that begins with batch().
  std::string Proofs(uint32_t run) const;
  void SetNext(uint32_t next) { held_.front().next = next; }
  // Removes the current lease.
  void Pop();
  // Makes the lease whose next batch is `batch` the current lease. False: no lease has this batch.
  bool GoTo(const BatchId& batch);

  // Returns the next batch of a lease at hand that is in the epoch of `batch` and in an earlier
  // round than `batch`; nullopt: no lease has one.
  std::optional<BatchId> OfEarlierRound(const BatchId& batch) const;

  // Returns the batch at hand that comes after the run, rejected or not; nullopt: there is none.
  std::optional<BatchId> After(uint32_t run = 1) const;
  // Returns the next batches of leases at hand after the run, in order: at most `count`, and only
  // those before the first rejected batch.
  std::vector<BatchId> Following(size_t count, uint32_t run = 1) const;
  // Returns at most `count` batches whose examples this worker will probably need after batch(), in
  // order. With lanes: as if the leases at hand reached to the end of the epoch. Without lanes: as
  // if this worker also computed the rest of the epoch.
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
  std::deque<uint64_t> ended_;  // with lanes: the ids of the last leases that Pop removed
};

}  // namespace paracord
