#include "coordinator/core/round_clock.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

TEST_CASE("a round takes as long as the last ones, whatever is between two epochs") {
  RoundClock clock;
  clock.Begin(0, 1000);
  clock.Note(0, 1500);
  CHECK_FALSE(clock.usual_ms().has_value());
  CHECK(clock.began_ms() == 1000);
  clock.Note(1, 2000);
  CHECK(clock.usual_ms() == Approx(1000));
  CHECK(clock.began_ms() == 2000);
  clock.Begin(0, 60000);  // the next epoch
  for (uint32_t round = 1; round <= 50; ++round) clock.Note(round, 60000 + round * 200);
  CHECK(clock.usual_ms() == Approx(200).margin(1));
  clock.Note(60, 71000);  // ten rounds at once, in 1 s
  CHECK(clock.usual_ms() == Approx(110).margin(2));
  clock.Note(55, 72000);  // a ps has lost its state
  CHECK(clock.usual_ms() == Approx(110).margin(2));
  CHECK(clock.began_ms() == 72000);
}

}  // namespace
}  // namespace paracord
