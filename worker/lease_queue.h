// The leases of splits that a worker has at hand, the next batch of each, and the order in which
// their batches are computed: lease after lease, as they came. Owned by the trainer, used on the
// loop. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "proto/paracord.pb.h"

namespace paracord {

class LeaseQueue {
 public:
  explicit LeaseQueue(DataPlan plan) : plan_(std::move(plan)) {}

  void Add(const Lease& lease) { held_.push_back({lease, lease.first_batch()}); }
  bool empty() const { return held_.empty(); }
  std::vector<uint64_t> Ids() const;
  // True if a further lease would not wait long: at most `left` batches of the only one are left.
  bool EndsWithin(uint32_t left) const;

  // The lease that is worked on, and its next batch. The queue must not be empty.
  const Lease& current() const { return held_.front().lease; }
  uint32_t next() const { return held_.front().next; }
  BatchId batch() const;
  bool used_up() const { return next() >= current().end_batch(); }
  // Whether the next batch is to be entered without gradients, and the proof that it is, which is
  // empty if the lease has none.
  bool rejected() const;
  std::string rejection() const;
  void SetNext(uint32_t next) { held_.front().next = next; }
  // Ends the lease that is worked on.
  void Pop() { held_.pop_front(); }

  // Returns the batches at hand that are computed after batch(), in their order: at most `count`,
  // and none from the first rejected one on.
  std::vector<BatchId> Following(size_t count) const;
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

  const DataPlan plan_;
  std::deque<Held> held_;  // the first is worked on
};

}  // namespace paracord
