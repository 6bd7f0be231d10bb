#include "worker/lease_queue.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "config/data_plan.h"
#include "data/batch_plan.h"

namespace paracord {
namespace {

// A session never has so many leases at hand and extensions under way.
constexpr size_t kEndedMax = 1024;

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

// Whether a lane with next batch `next` is computed before another lane.
bool Before(const Lease& lane, uint32_t next, const Lease& other, uint32_t other_next) {
  return std::tuple(lane.epoch(), next, lane.split()) <
         std::tuple(other.epoch(), other_next, other.split());
}

}  // namespace

// Goes through the batches at hand that follow the current batch, in order, without a change of the
// queue.
class LeaseQueue::Walk {
 public:
  // `run`: the number of lanes, from the current lane on, that are worked on. `extended`: as if the
  // leases of lanes reached to the end of the epoch.
  explicit Walk(const LeaseQueue& queue, uint32_t run, bool extended = false)
      : lanes_(queue.lanes()) {
    const BatchId first = queue.batch();
    for (const auto& [lease, next] : queue.held_) {
      const uint32_t end =
          lanes_ && extended ? BatchesInSplit(queue.plan_, lease.split()) : lease.end_batch();
      places_.push_back({&lease, next, end});
      const bool same_round = lease.epoch() == first.epoch() && next == first.batch();
      const bool of_run =
          same_round && lease.split() > first.split() && lease.split() - first.split() < run;
      if (of_run) ++places_.back().next;
    }
    ++places_[0].next;
  }

  // Nullopt: there is none.
  std::optional<BatchId> Next() {
    Place* first = nullptr;
    for (Place& place : places_) {
      if (place.next >= place.end) continue;
      if (first != nullptr && !Before(*place.lease, place.next, *first->lease, first->next)) {
        continue;
      }
      first = &place;
      if (!lanes_) break;
    }
    if (first == nullptr) return std::nullopt;
    rejected_ = IsRejected(*first->lease, first->next);
    return BatchOf(*first->lease, first->next++);
  }
  // Whether the batch that Next returned is rejected.
  bool rejected() const { return rejected_; }

 private:
  struct Place {
    const Lease* lease;
    uint32_t next, end;
  };
  const bool lanes_;
  std::vector<Place> places_;
  bool rejected_ = false;
};

void LeaseQueue::Add(const Lease& lease) {
  if (lanes()) {
    const auto held = std::ranges::find_if(
        held_, [&](const Held& each) { return each.lease.id() == lease.id(); });
    if (held != held_.end()) {
      held->lease.set_end_batch(std::max(held->lease.end_batch(), lease.end_batch()));
      if (lease.rejected_size() <= held->lease.rejected_size()) return;
      *held->lease.mutable_rejected() = lease.rejected();
      *held->lease.mutable_rejections() = lease.rejections();
      return;
    }
    if (std::ranges::find(ended_, lease.id()) != ended_.end()) return;
  }
  held_.push_back({lease, lease.first_batch()});
}

void LeaseQueue::Choose() {
  if (!lanes()) return;
  const auto first = std::ranges::min_element(
      held_, [](const Held& a, const Held& b) { return Before(a.lease, a.next, b.lease, b.next); });
  std::swap(*held_.begin(), *first);
}

void LeaseQueue::Pop() {
  if (lanes()) {
    ended_.push_back(current().id());
    if (ended_.size() > kEndedMax) ended_.pop_front();
  }
  held_.pop_front();
}

bool LeaseQueue::GoTo(const BatchId& batch) {
  const auto found = std::ranges::find_if(
      held_, [&](const Held& held) { return SameBatch(BatchOf(held.lease, held.next), batch); });
  if (found == held_.end()) return false;
  std::swap(*held_.begin(), *found);
  return true;
}

std::optional<BatchId> LeaseQueue::OfEarlierRound(const BatchId& batch) const {
  const auto found = std::ranges::find_if(held_, [&](const Held& held) {
    return held.lease.epoch() == batch.epoch() && held.next < batch.batch() &&
           held.next < held.lease.end_batch();
  });
  return found == held_.end() ? std::nullopt : std::optional(BatchOf(found->lease, found->next));
}

std::vector<uint64_t> LeaseQueue::Ids() const {
  std::vector<uint64_t> ids;
  for (const Held& held : held_) ids.push_back(held.lease.id());
  return ids;
}

bool LeaseQueue::EndsWithin(uint32_t left) const {
  const bool all = std::ranges::all_of(
      held_, [&](const Held& held) { return held.next + left >= held.lease.end_batch(); });
  return all && (lanes() || held_.size() == 1);
}

BatchId LeaseQueue::batch() const { return BatchOf(current(), next()); }

bool LeaseQueue::rejected() const { return IsRejected(current(), next()); }

std::string LeaseQueue::rejection() const {
  const Lease& lease = current();
  const auto at = std::ranges::find(lease.rejected(), next()) - lease.rejected().begin();
  return at < lease.rejections_size() ? lease.rejections(static_cast<int>(at)) : "";
}

std::string LeaseQueue::Proofs(uint32_t run) const {
  std::string proofs = current().proof();
  BatchId lane = batch();
  for (uint32_t i = 1; i < run; ++i) {
    lane.set_split(lane.split() + 1);
    const auto held = std::ranges::find_if(
        held_, [&](const Held& each) { return SameBatch(BatchOf(each.lease, each.next), lane); });
    if (held != held_.end()) proofs += held->lease.proof();
  }
  return proofs;
}

std::optional<BatchId> LeaseQueue::After(uint32_t run) const { return Walk(*this, run).Next(); }

std::vector<BatchId> LeaseQueue::Following(size_t count, uint32_t run) const {
  std::vector<BatchId> following;
  Walk walk(*this, run);
  while (following.size() < count) {
    const std::optional<BatchId> next = walk.Next();
    if (!next.has_value() || walk.rejected()) break;
    following.push_back(*next);
  }
  return following;
}

std::vector<BatchId> LeaseQueue::Upcoming(size_t count) const {
  std::vector<BatchId> upcoming;
  Walk walk(*this, /*run=*/1, /*extended=*/true);
  bool at_hand = true;
  for (std::optional<BatchId> last = batch(); upcoming.size() < count;) {
    std::optional<BatchId> next = at_hand ? walk.Next() : std::nullopt;
    at_hand = next.has_value();
    if (!at_hand && !lanes()) next = NextInEpoch(plan_, *last);
    if (!next.has_value()) break;
    if (!at_hand || !walk.rejected()) upcoming.push_back(*next);
    last = next;
  }
  return upcoming;
}

}  // namespace paracord
