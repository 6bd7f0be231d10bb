#include "net/request_budget.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace paracord {
namespace {

TEST_CASE("a request that brings the sum above the limit waits until there is room") {
  RequestBudget request_budget(100);
  std::string order;
  const uint64_t a = request_budget.Begin();
  const uint64_t b = request_budget.Begin();
  const uint64_t c = request_budget.Begin();
  CHECK(request_budget.Take(b, 60, [] {}));
  CHECK(request_budget.Take(a, 60, [] {}));  // the oldest always reads on
  CHECK_FALSE(request_budget.Take(b, 10, [&] { order += 'b'; }));
  CHECK_FALSE(request_budget.Take(c, 10, [&] { order += 'c'; }));
  CHECK(request_budget.Take(a, 500, [] {}));
  CHECK(request_budget.bytes() == 640);
  CHECK(order.empty());
  request_budget.Arrived(a);  // now b is the oldest
  CHECK(order == "b");
  CHECK(request_budget.Take(b, 5, [] {}));
  request_budget.End(a);
  CHECK(order == "bc");
  CHECK(request_budget.bytes() == 85);
  request_budget.Arrived(b);
  request_budget.End(b);
  request_budget.End(c);  // cancelled on arrival
  CHECK(request_budget.bytes() == 0);
}

TEST_CASE("a request that was read while its answer waits counts no more, and others go on") {
  RequestBudget request_budget(100);
  const uint64_t read = request_budget.Begin();
  CHECK(request_budget.Take(read, 150, [] {}));
  request_budget.Arrived(read);
  const uint64_t oldest = request_budget.Begin();
  const uint64_t waiting = request_budget.Begin();
  bool resumed = false;
  CHECK_FALSE(request_budget.Take(waiting, 10, [&] { resumed = true; }));
  request_budget.Keep(read, 40);
  CHECK(resumed);
  CHECK(request_budget.bytes() == 50);
  request_budget.Keep(read, 60);  // fewer bytes were taken
  CHECK(request_budget.bytes() == 50);
  for (const uint64_t call : {read, oldest, waiting}) request_budget.End(call);
  request_budget.Keep(read, 0);  // the caller has left meanwhile
  CHECK(request_budget.bytes() == 0);
}

TEST_CASE("a small request never waits for a large one") {
  RequestBudget request_budget(100, /*small_bytes=*/10);
  const uint64_t large = request_budget.Begin();
  const uint64_t small = request_budget.Begin();
  CHECK(request_budget.Take(large, 1000, [] {}));
  CHECK(request_budget.Take(small, 10, [] {}));
  bool resumed = false;
  CHECK_FALSE(request_budget.Take(small, 1, [&] { resumed = true; }));
  request_budget.Arrived(large);
  CHECK(resumed);
}

TEST_CASE("a request that hardly moves while others wait is dropped, once, and then they go on") {
  int64_t now = 1000;
  RequestBudget request_budget(100, /*small_bytes=*/0, [&now] { return now; });
  std::string dropped;
  bool resumed = false;
  const uint64_t slow = request_budget.Begin([&dropped] { dropped += 's'; });
  const uint64_t other = request_budget.Begin([&dropped] { dropped += 'o'; });
  now += 10 * RequestBudget::kPatienceMs;
  CHECK(request_budget.Take(slow, 1, [] {}));  // no call waits behind it yet
  CHECK_FALSE(request_budget.Take(other, 200, [&resumed] { resumed = true; }));
  for (int i = 0; i < 4; ++i) {  // slow, but fast enough
    now += RequestBudget::kPatienceMs - 1;
    CHECK(request_budget.Take(slow, RequestBudget::kMovedMin, [] {}));
  }
  CHECK(dropped.empty());
  for (int64_t t = 0; t < RequestBudget::kPatienceMs; t += 500) {  // too slow
    CHECK(dropped.empty());
    CHECK(request_budget.Take(slow, 1, [] {}));
    now += 500;
  }
  const uint64_t ping = request_budget.Begin();  // any call may notice
  CHECK(dropped == "s");
  now += 10 * RequestBudget::kPatienceMs;
  request_budget.End(request_budget.Begin());
  CHECK(dropped == "s");
  CHECK_FALSE(resumed);
  request_budget.End(slow);  // its connection has ended
  CHECK(resumed);
  CHECK(request_budget.Take(other, 1000000, [] {}));
  now += 10 * RequestBudget::kPatienceMs;
  request_budget.End(request_budget.Begin());
  CHECK(dropped == "s");  // no call waits for the other one
  request_budget.End(ping);
  request_budget.End(other);
  CHECK(request_budget.bytes() == 0);
}

TEST_CASE("bytes that are not taken yet count as moved, and a pause of this process is nobody's") {
  int64_t now = 1000;
  RequestBudget request_budget(100, /*small_bytes=*/0, [&now] { return now; });
  bool dropped = false;
  const uint64_t slow = request_budget.Begin([&dropped] { dropped = true; });
  const uint64_t other = request_budget.Begin();
  CHECK_FALSE(request_budget.Take(other, 200, [] {}));
  for (uint64_t moved = 0; moved < 20; ++moved) {
    now += 1000;
    request_budget.Moved(slow, moved * RequestBudget::kMovedMin / 4);
    request_budget.Look();
    CHECK_FALSE(dropped);
  }
  now += 100 * RequestBudget::kPatienceMs;
  request_budget.Look();
  CHECK_FALSE(dropped);
  for (int i = 0; i < 4; ++i) request_budget.Look(), now += 1000;
  CHECK_FALSE(dropped);
  now += 1000;
  request_budget.Look();
  CHECK(dropped);
  request_budget.End(slow);
  request_budget.End(other);
}

TEST_CASE("any number of calls in any order come to their end") {
  RequestBudget request_budget(1000);
  std::vector<uint64_t> calls;
  std::vector<int> left;  // remaining pieces of each call
  std::vector<bool> may;
  for (int i = 0; i < 50; ++i) {
    calls.push_back(request_budget.Begin());
    left.push_back(1 + i % 7);
    may.push_back(true);
  }
  size_t ended = 0;
  uint64_t most = 0;
  for (int round = 0; round < 1000 && ended < calls.size(); ++round) {
    for (size_t i = calls.size(); i-- > 0;) {  // youngest first, the worst order
      if (left[i] == 0 || !may[i]) continue;
      may[i] = request_budget.Take(calls[i], 90, [&may, i] { may[i] = true; });
      most = std::max(most, request_budget.bytes());
      if (--left[i] > 0) continue;
      request_budget.Arrived(calls[i]);
      request_budget.End(calls[i]);
      ++ended;
    }
  }
  CHECK(ended == calls.size());
  CHECK(request_budget.bytes() == 0);
  CHECK(most <= 1000 + 50 * 90);  // one piece of each may be in flight
}

}  // namespace
}  // namespace paracord
