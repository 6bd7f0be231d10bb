#include "net/intake.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace paracord {
namespace {

TEST_CASE("a request that brings the sum above the limit waits until there is room") {
  Intake intake(100);
  std::string order;
  const uint64_t a = intake.Begin();
  const uint64_t b = intake.Begin();
  const uint64_t c = intake.Begin();
  CHECK(intake.Take(b, 60, [] {}));
  CHECK(intake.Take(a, 60, [] {}));  // the oldest always reads on
  CHECK_FALSE(intake.Take(b, 10, [&] { order += 'b'; }));
  CHECK_FALSE(intake.Take(c, 10, [&] { order += 'c'; }));
  CHECK(intake.Take(a, 500, [] {}));
  CHECK(intake.bytes() == 640);
  CHECK(order.empty());
  intake.Arrived(a);  // now b is the oldest
  CHECK(order == "b");
  CHECK(intake.Take(b, 5, [] {}));
  intake.End(a);
  CHECK(order == "bc");
  CHECK(intake.bytes() == 85);
  intake.Arrived(b);
  intake.End(b);
  intake.End(c);  // cancelled on arrival
  CHECK(intake.bytes() == 0);
}

TEST_CASE("a request that was read while its answer waits counts no more, and others go on") {
  Intake intake(100);
  const uint64_t read = intake.Begin();
  CHECK(intake.Take(read, 150, [] {}));
  intake.Arrived(read);
  const uint64_t oldest = intake.Begin();
  const uint64_t waiting = intake.Begin();
  bool resumed = false;
  CHECK_FALSE(intake.Take(waiting, 10, [&] { resumed = true; }));
  intake.Keep(read, 40);
  CHECK(resumed);
  CHECK(intake.bytes() == 50);
  intake.Keep(read, 60);  // fewer bytes were taken
  CHECK(intake.bytes() == 50);
  for (const uint64_t call : {read, oldest, waiting}) intake.End(call);
  intake.Keep(read, 0);  // the caller has left meanwhile
  CHECK(intake.bytes() == 0);
}

TEST_CASE("a small request never waits for a large one") {
  Intake intake(100, /*small_bytes=*/10);
  const uint64_t large = intake.Begin();
  const uint64_t small = intake.Begin();
  CHECK(intake.Take(large, 1000, [] {}));
  CHECK(intake.Take(small, 10, [] {}));
  bool resumed = false;
  CHECK_FALSE(intake.Take(small, 1, [&] { resumed = true; }));
  intake.Arrived(large);
  CHECK(resumed);
}

TEST_CASE("a request that hardly moves while others wait is dropped, once, and then they go on") {
  int64_t now = 1000;
  Intake intake(100, /*small_bytes=*/0, [&now] { return now; });
  std::string dropped;
  bool resumed = false;
  const uint64_t slow = intake.Begin([&dropped] { dropped += 's'; });
  const uint64_t other = intake.Begin([&dropped] { dropped += 'o'; });
  now += 10 * Intake::kPatienceMs;
  CHECK(intake.Take(slow, 1, [] {}));  // no call waits behind it yet
  CHECK_FALSE(intake.Take(other, 200, [&resumed] { resumed = true; }));
  for (int i = 0; i < 4; ++i) {  // slow, but fast enough
    now += Intake::kPatienceMs - 1;
    CHECK(intake.Take(slow, Intake::kMovedMin, [] {}));
  }
  CHECK(dropped.empty());
  for (int64_t t = 0; t < Intake::kPatienceMs; t += 500) {  // too slow
    CHECK(dropped.empty());
    CHECK(intake.Take(slow, 1, [] {}));
    now += 500;
  }
  const uint64_t ping = intake.Begin();  // any call may notice
  CHECK(dropped == "s");
  now += 10 * Intake::kPatienceMs;
  intake.End(intake.Begin());
  CHECK(dropped == "s");
  CHECK_FALSE(resumed);
  intake.End(slow);  // its connection has ended
  CHECK(resumed);
  CHECK(intake.Take(other, 1000000, [] {}));
  now += 10 * Intake::kPatienceMs;
  intake.End(intake.Begin());
  CHECK(dropped == "s");  // no call waits for the other one
  intake.End(ping);
  intake.End(other);
  CHECK(intake.bytes() == 0);
}

TEST_CASE("bytes that are not taken yet count as moved, and a pause of this process is nobody's") {
  int64_t now = 1000;
  Intake intake(100, /*small_bytes=*/0, [&now] { return now; });
  bool dropped = false;
  const uint64_t slow = intake.Begin([&dropped] { dropped = true; });
  const uint64_t other = intake.Begin();
  CHECK_FALSE(intake.Take(other, 200, [] {}));
  for (uint64_t moved = 0; moved < 20; ++moved) {
    now += 1000;
    intake.Moved(slow, moved * Intake::kMovedMin / 4);
    intake.Look();
    CHECK_FALSE(dropped);
  }
  now += 100 * Intake::kPatienceMs;
  intake.Look();
  CHECK_FALSE(dropped);
  for (int i = 0; i < 4; ++i) intake.Look(), now += 1000;
  CHECK_FALSE(dropped);
  now += 1000;
  intake.Look();
  CHECK(dropped);
  intake.End(slow);
  intake.End(other);
}

TEST_CASE("any number of calls in any order come to their end") {
  Intake intake(1000);
  std::vector<uint64_t> calls;
  std::vector<int> left;  // remaining pieces of each call
  std::vector<bool> may;
  for (int i = 0; i < 50; ++i) {
    calls.push_back(intake.Begin());
    left.push_back(1 + i % 7);
    may.push_back(true);
  }
  size_t ended = 0;
  uint64_t most = 0;
  for (int round = 0; round < 1000 && ended < calls.size(); ++round) {
    for (size_t i = calls.size(); i-- > 0;) {  // youngest first, the worst order
      if (left[i] == 0 || !may[i]) continue;
      may[i] = intake.Take(calls[i], 90, [&may, i] { may[i] = true; });
      most = std::max(most, intake.bytes());
      if (--left[i] > 0) continue;
      intake.Arrived(calls[i]);
      intake.End(calls[i]);
      ++ended;
    }
  }
  CHECK(ended == calls.size());
  CHECK(intake.bytes() == 0);
  CHECK(most <= 1000 + 50 * 90);  // one piece of each may be in flight
}

}  // namespace
}  // namespace paracord
