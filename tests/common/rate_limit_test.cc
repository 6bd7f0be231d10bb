#include "common/rate_limit.h"

#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace paracord
