#include "config/norm_clip.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace paracord {
namespace {

TEST_CASE("a factor clips to the norm, and leaves what is within it as it is") {
  CHECK(ClipFactor(2.5, 25) == 0.5f);
  CHECK(ClipFactor(5, 25) == 1);
  CHECK(ClipFactor(6, 25) == 1);
  CHECK(ClipFactor(1, 0) == 1);
  CHECK(ClipFactor(1, std::numeric_limits<double>::max()) == 0);
  CHECK(ClipFactor(1, std::numeric_limits<double>::infinity()) == 0);
  CHECK(std::isnan(ClipFactor(1, std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace paracord
