#include "server/pending_orders.h"

#include <catch2/catch.hpp>

#include "server/coordinator_watch.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("a repeated Load joins the one that runs, and all are answered when it ends") {
  PendingOrders orders;
  Answers answers;
  const auto load = orders.Load(std::make_shared<FakeCall>(), answers).value();
  REQUIRE(load != nullptr);
  CHECK(orders.loading());
  CHECK(orders.Load(std::make_shared<FakeCall>(), answers).value() == nullptr);
  while (load->waiting.size() < kWaitingMax) load->waiting.push_back(nullptr);
  CHECK(absl::IsResourceExhausted(orders.Load(std::make_shared<FakeCall>(), answers).status()));
  CHECK(answers.calls.empty());
  CHECK(orders.EndLoad(load)->size() == kWaitingMax);
  CHECK_FALSE(orders.any());
}

TEST_CASE("an order that was voided is void when it comes back, and its callers were answered") {
  PendingOrders orders;
  Answers answers;
  const auto load = orders.Load(std::make_shared<FakeCall>(), answers).value();
  const auto snapshot = orders.Snapshot(1, std::make_shared<FakeCall>(), answers).value();
  CHECK(orders.any());
  orders.VoidAll(absl::AbortedError("a newer one took over"), answers);
  CHECK(answers.calls.size() == 2);
  CHECK(snapshot->voided);
  CHECK_FALSE(orders.any());
  CHECK_FALSE(orders.EndLoad(load).has_value());
  CHECK_FALSE(orders.EndSnapshot(snapshot, SnapshotReply()).has_value());
}

TEST_CASE("the newest round is written, and said again to who asks again") {
  PendingOrders orders;
  Answers answers;
  const auto ask = [&](uint64_t round) {
    return orders.Snapshot(round, std::make_shared<FakeCall>(), answers);
  };
  const auto first = ask(3).value();
  CHECK(ask(3).value() == nullptr);
  CHECK(absl::IsAborted(ask(2).status()));
  const auto second = ask(4).value();
  CHECK(first->voided);
  CHECK(answers.calls.size() == 2);  // both calls for round 3
  answers.calls.clear();
  CHECK(orders.EndSnapshot(second, SnapshotReply())->size() == 1);
  CHECK(ask(4).value() == nullptr);
  CHECK(answers.calls.size() == 1);
  CHECK(absl::IsAborted(ask(3).status()));
  orders.ForgetWritten();
  CHECK(ask(4).value() != nullptr);
  CHECK(orders.Load(std::make_shared<FakeCall>(), answers).value() != nullptr);  // voids round 4
  CHECK(answers.calls.size() == 2);
}

TEST_CASE("a coordinator may stay away for a while after it was heard") {
  CoordinatorWatch watch;
  watch.Heard(1000);
  CHECK(watch.OrphanLeftMs(500, 1200) == 300);
  CHECK(watch.OrphanLeftMs(500, 1500) == 0);
  CHECK(watch.OrphanLeftMs(500, 9000) == 0);
}

TEST_CASE("a job that was done before a ps began may get more to do, and one that ends may not") {
  const JobEnd end{.checkpoint = "step-10", .start_ms = 5000};
  CoordinatorWatch watch;
  watch.Start(1000);
  CHECK(watch.FoundEnd(end, 2000) == 4000);
  CHECK(watch.FoundEnd({.checkpoint = "step-20", .start_ms = 5000}, 2000) == std::nullopt);
  CHECK(watch.FoundEnd(end, 6000) == std::nullopt);
  CoordinatorWatch there;
  there.Start(1000);
  there.FoundNoEnd();
  CHECK(there.FoundEnd(end, 2000) == std::nullopt);
  CoordinatorWatch loaded;
  loaded.Start(1000);
  loaded.Loaded();
  CHECK(loaded.FoundEnd(end, 2000) == std::nullopt);
}

}  // namespace
}  // namespace paracord
