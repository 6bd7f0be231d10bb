#include "worker/lease_queue.h"

#include <algorithm>
#include <optional>

#include "config/data_plan.h"

namespace paracord {
namespace {

bool IsRejected(const Lease& lease, uint32_t batch) {
  return std::ranges::find(lease.rejected(), batch) != lease.rejected().end();
}

BatchId BatchOf(const Lease& lease, uint32_t number) {
  BatchId batch;
  batch.set_epoch(lease.epoch());
  batch.set_split(lease.split());
  batch.set_batch(number);
  return batch;
}

// Returns the batch after `batch` in the epoch; nullopt if that is the epoch's last one.
std::optional<BatchId> NextInEpoch(const DataPlan& plan, const BatchId& batch) {
  const uint64_t place = BatchInEpoch(plan, batch.split(), batch.batch()) + 1;
  if (place >= BatchesPerEpoch(plan)) return std::nullopt;
  return BatchAt(plan, batch.epoch(), place);
}

}  // namespace

// Goes through the batches at hand after the one that is worked on, in their order, and leaves the
// queue as it is.
class LeaseQueue::Walk {
 public:
  explicit Walk(const LeaseQueue& queue) {
    for (const Held& held : queue.held_) places_.push_back({&held.lease, held.next});
    ++places_[0].next;
  }

  // Nullopt: there is none.
  std::optional<BatchId> Next() {
    while (first_ < places_.size() && places_[first_].next >= places_[first_].lease->end_batch()) {
      ++first_;
    }
    if (first_ == places_.size()) return std::nullopt;
    Place& place = places_[first_];
    rejected_ = IsRejected(*place.lease, place.next);
    return BatchOf(*place.lease, place.next++);
  }
  // Whether the batch that Next returned is rejected.
  bool rejected() const { return rejected_; }

 private:
  struct Place {
    const Lease* lease;
    uint32_t next;
  };
  std::vector<Place> places_;
  size_t first_ = 0;
  bool rejected_ = false;
};

std::vector<uint64_t> LeaseQueue::Ids() const {
  std::vector<uint64_t> ids;
  for (const Held& held : held_) ids.push_back(held.lease.id());
  return ids;
}

bool LeaseQueue::EndsWithin(uint32_t left) const {
  return held_.size() == 1 && next() + left >= current().end_batch();
}

BatchId LeaseQueue::batch() const { return BatchOf(current(), next()); }

bool LeaseQueue::rejected() const { return IsRejected(current(), next()); }

std::string LeaseQueue::rejection() const {
  const Lease& lease = current();
  const auto at = std::ranges::find(lease.rejected(), next()) - lease.rejected().begin();
  return at < lease.rejections_size() ? lease.rejections(static_cast<int>(at)) : "";
}

std::vector<BatchId> LeaseQueue::Following(size_t count) const {
  std::vector<BatchId> following;
  Walk walk(*this);
  while (following.size() < count) {
    const std::optional<BatchId> next = walk.Next();
    if (!next.has_value() || walk.rejected()) break;
    following.push_back(*next);
  }
  return following;
}

std::vector<BatchId> LeaseQueue::Upcoming(size_t count) const {
  std::vector<BatchId> upcoming;
  Walk walk(*this);
  bool at_hand = true;
  for (std::optional<BatchId> last = batch(); upcoming.size() < count;) {
    std::optional<BatchId> next = at_hand ? walk.Next() : std::nullopt;
    at_hand = next.has_value();
    if (!at_hand) next = NextInEpoch(plan_, *last);
    if (!next.has_value()) break;
    if (!at_hand || !walk.rejected()) upcoming.push_back(*next);
    last = next;
  }
  return upcoming;
}

}  // namespace paracord
