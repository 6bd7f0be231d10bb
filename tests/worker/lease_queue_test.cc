#include "worker/lease_queue.h"

#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

Lease SplitLease(uint64_t id, uint64_t split, uint32_t first, uint32_t end,
                 std::initializer_list<uint32_t> rejected = {}) {
  Lease lease;
  lease.set_id(id);
  lease.set_split(split);
  lease.set_first_batch(first);
  lease.set_end_batch(end);
  for (const uint32_t batch : rejected) {
    lease.add_rejected(batch);
    lease.add_rejections(absl::StrCat("proof ", batch));
  }
  return lease;
}

// Returns "split.batch" for each batch.
std::vector<std::string> Named(const std::vector<BatchId>& batches) {
  std::vector<std::string> named;
  for (const BatchId& id : batches) named.push_back(absl::StrCat(id.split(), ".", id.batch()));
  return named;
}
using Names = std::vector<std::string>;

// Returns a plan of fourteen batches an epoch in splits of four.
DataPlan SplitPlan() {
  DataPlan plan;
  plan.set_records(14);
  plan.set_batch(1);
  plan.set_split_batches(4);
  return plan;
}

TEST_CASE("leases are worked on one after the other, as they came") {
  LeaseQueue queue(SplitPlan());
  CHECK(queue.empty());
  queue.Add(SplitLease(7, 2, 1, 4));
  queue.Add(SplitLease(8, 0, 0, 4));
  CHECK(queue.Ids() == std::vector<uint64_t>{7, 8});
  CHECK(Named({queue.batch()}) == Names{"2.1"});
  CHECK(Named(queue.Following(3)) == Names{"2.2", "2.3", "0.0"});
  CHECK_FALSE(queue.EndsWithin(9));  // another lease follows
  queue.SetNext(4);
  CHECK(queue.used_up());
  queue.Pop();
  CHECK(queue.current().id() == 8);
  CHECK_FALSE(queue.used_up());
  CHECK_FALSE(queue.EndsWithin(3));
  CHECK(queue.EndsWithin(4));
  CHECK(Named(queue.Following(9)) == Names{"0.1", "0.2", "0.3"});
}

TEST_CASE("no batch is computed ahead from a rejected one on, and none of these is read") {
  LeaseQueue queue(SplitPlan());
  queue.Add(SplitLease(1, 0, 0, 4, {0, 2}));
  CHECK(queue.rejected());
  CHECK(queue.rejection() == "proof 0");
  CHECK(Named(queue.Following(9)) == Names{"0.1"});
  CHECK(Named(queue.Upcoming(3)) == Names{"0.1", "0.3", "1.0"});
  queue.SetNext(1);
  CHECK_FALSE(queue.rejected());
  CHECK(queue.Following(9).empty());
  queue.SetNext(2);
  CHECK(queue.rejection() == "proof 2");
  queue.Pop();
  Lease unproved = SplitLease(2, 0, 1, 4);
  unproved.add_rejected(1);
  queue.Add(unproved);
  CHECK(queue.rejected());
  CHECK(queue.rejection().empty());
}

TEST_CASE("after the leases at hand the batches that follow in the epoch are read ahead") {
  LeaseQueue queue(SplitPlan());
  queue.Add(SplitLease(1, 0, 3, 4));
  CHECK(Named(queue.Upcoming(3)) == Names{"1.0", "1.1", "1.2"});
  queue.Add(SplitLease(2, 3, 0, 1));
  CHECK(Named(queue.Upcoming(3)) == Names{"3.0", "3.1"});  // the epoch ends
}

// Returns a plan of fourteen batches an epoch in four lanes. The first two lanes have one batch
// more.
DataPlan LanePlan() {
  DataPlan plan = SplitPlan();
  plan.set_lanes(4);
  return plan;
}

Lease InEpoch(uint64_t epoch, Lease lease) {
  lease.set_epoch(epoch);
  return lease;
}

// Computes all batches at hand. Returns their order.
Names WorkedOff(LeaseQueue& queue) {
  Names order;
  while (!queue.empty()) {
    queue.Choose();
    order.push_back(Named({queue.batch()})[0]);
    queue.SetNext(queue.next() + 1);
    if (queue.used_up()) queue.Pop();
  }
  return order;
}

TEST_CASE("of several lanes the one that is furthest behind is next, in ascending order") {
  LeaseQueue queue(LanePlan());
  queue.Add(SplitLease(1, 3, 1, 3));
  queue.Add(SplitLease(2, 1, 1, 3));
  queue.Add(SplitLease(3, 2, 0, 2));
  queue.Add(InEpoch(1, SplitLease(4, 0, 0, 1)));
  queue.Choose();
  CHECK(Named({queue.batch()}) == Names{"2.0"});
  CHECK(Named(queue.Following(3)) == Names{"1.1", "2.1", "3.1"});
  CHECK(WorkedOff(queue) == Names{"2.0", "1.1", "2.1", "3.1", "1.2", "3.2", "0.0"});
}

TEST_CASE("a lane that comes while a batch is under way is next if it is further behind") {
  LeaseQueue queue(LanePlan());
  queue.Add(SplitLease(1, 0, 2, 4));
  queue.Choose();
  queue.Add(SplitLease(2, 3, 1, 3));
  CHECK(Named({queue.batch()}) == Names{"0.2"});  // in progress
  CHECK(Named(queue.Following(3)) == Names{"3.1", "3.2", "0.3"});
  queue.SetNext(3);
  queue.Choose();
  CHECK(Named({queue.batch()}) == Names{"3.1"});
}

TEST_CASE("the end of a lane at hand moves on, and never back") {
  LeaseQueue queue(LanePlan());
  queue.Add(SplitLease(1, 0, 0, 2));
  queue.Add(SplitLease(2, 1, 0, 1));
  CHECK_FALSE(queue.EndsWithin(1));
  CHECK(queue.EndsWithin(2));  // all leases end
  queue.Add(SplitLease(2, 1, 0, 3));
  queue.Add(SplitLease(1, 0, 0, 1));
  CHECK_FALSE(queue.EndsWithin(2));
  CHECK(WorkedOff(queue) == Names{"0.0", "1.0", "0.1", "1.1", "1.2"});
  queue.Add(SplitLease(2, 1, 0, 4));  // the lease has ended
  CHECK(queue.empty());
  queue.Add(SplitLease(3, 1, 3, 4));
  CHECK(queue.Ids() == std::vector<uint64_t>{3});
}

TEST_CASE("what is read ahead of lanes goes on where their leases end, for they are extended") {
  LeaseQueue queue(LanePlan());
  queue.Add(SplitLease(1, 1, 2, 3));
  queue.Add(SplitLease(2, 2, 2, 3));
  queue.Choose();
  CHECK(Named(queue.Following(9)) == Names{"2.2"});
  CHECK(Named(queue.Upcoming(9)) == Names{"2.2", "1.3"});  // lane 2 has three batches
}

TEST_CASE("a rejected batch of a lane is entered in its turn, and ends what is computed ahead") {
  LeaseQueue queue(LanePlan());
  queue.Add(SplitLease(1, 0, 1, 3));
  queue.Add(SplitLease(2, 1, 1, 3, {1}));
  queue.Choose();
  CHECK_FALSE(queue.rejected());
  CHECK(queue.Following(9).empty());
  CHECK(Named(queue.Upcoming(2)) == Names{"0.2", "1.2"});
  queue.SetNext(2);
  queue.Choose();
  CHECK(queue.rejected());
  CHECK(queue.rejection() == "proof 1");
  queue.SetNext(2);
  // An extension may name a rejection that was unknown before.
  queue.Add(SplitLease(1, 0, 1, 3, {0, 2}));
  queue.Choose();
  CHECK(queue.batch().split() == 0);
  CHECK(queue.rejection() == "proof 2");
  queue.Add(SplitLease(1, 0, 1, 3));
  CHECK(queue.rejected());
}

TEST_CASE("what comes after a batch may be a rejected one, which nobody computes") {
  DataPlan plan = SplitPlan();
  plan.set_lanes(4);
  LeaseQueue queue(plan);
  queue.Add(SplitLease(1, 0, 0, 2, {1}));
  CHECK(queue.After()->batch() == 1);
  CHECK(queue.Following(2).empty());
  queue.Add(SplitLease(2, 3, 0, 2));
  CHECK(queue.After()->split() == 3);
  CHECK(Named({*queue.After()}) == Named(queue.Following(1)));
  queue.Pop();
  queue.SetNext(1);
  CHECK_FALSE(queue.After().has_value());
}

}  // namespace
}  // namespace paracord
