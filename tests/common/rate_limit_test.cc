#include "common/rate_limit.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "common/steady_ms.h"

namespace paracord {
namespace {

TEST_CASE("each key has so many times in a window, and as many in the next") {
  RateLimit limit(2, 1000, 10);
  CHECK(limit.Allow("a", 0));
  CHECK(limit.Allow("a", 900));
  CHECK_FALSE(limit.Allow("a", 999));
  CHECK(limit.Allow("b", 999));
  CHECK(limit.Allow("a", 1000));
  CHECK(limit.Allow("a", 1001));
  CHECK_FALSE(limit.Allow("a", 1999));
}

TEST_CASE("keys beyond the most that are remembered begin anew") {
  RateLimit limit(1, 1000, 2);
  CHECK(limit.Allow("a", 0));
  CHECK(limit.Allow("b", 0));
  CHECK_FALSE(limit.Allow("a", 1));
  CHECK(limit.Allow("c", 1));
  CHECK(limit.Allow("a", 1));
}

TEST_CASE("what a peer repeats for long is told ever less often, and at once after a pause") {
  OncePerSecond may_say;
  std::vector<int64_t> said;
  for (int64_t now_ms = 0; now_ms < 100000; now_ms += 100) {
    if (may_say.Now(now_ms)) said.push_back(now_ms);
  }
  CHECK(said == std::vector<int64_t>{0, 1000, 3000, 7000, 15000, 31000, 63000, 95000});
  CHECK(may_say.Now(200000));
  CHECK_FALSE(may_say.Now(200999));
  CHECK(may_say.Now(201000));
}

}  // namespace
}  // namespace paracord
