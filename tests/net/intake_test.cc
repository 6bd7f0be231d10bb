#include "net/intake.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace paracord {
namespace {

TEST_CASE("who brings the sum above the limit waits until there is room") {
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
  intake.End(c);  // cancelled while it arrived
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

TEST_CASE("any number of calls in any order come to their end") {
  Intake intake(1000);
  std::vector<uint64_t> calls;
  std::vector<int> left;  // pieces of each
  std::vector<bool> may;
  for (int i = 0; i < 50; ++i) {
    calls.push_back(intake.Begin());
    left.push_back(1 + i % 7);
    may.push_back(true);
  }
  size_t ended = 0;
  uint64_t most = 0;
  for (int round = 0; round < 1000 && ended < calls.size(); ++round) {
    for (size_t i = calls.size(); i-- > 0;) {  // the youngest first: the worst order
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
  CHECK(most <= 1000 + 50 * 90);  // a piece of each that was on its way
}

}  // namespace
}  // namespace paracord
