// A cut is of a state that no partition has passed when the order arrives.
#include "coordinator/core/cuts.h"

#include <catch2/catch.hpp>
#include <limits>

namespace paracord {
namespace {

TEST_CASE("a cut is two rounds and those of one second ahead") {
  const Cuts cuts;
  CHECK(cuts.Order({.greatest = 10, .end = 1000, .rounds_a_second = 0}) == 12);
  CHECK(cuts.Order({.greatest = 10, .end = 1000, .rounds_a_second = 30.2}) == 10 + 2 + 31);
}

TEST_CASE("a cut is not behind the end of the epoch or of the job, which waits for it") {
  const Cuts cuts;
  CHECK(cuts.Order({.greatest = 10, .end = 11, .rounds_a_second = 50}) == 11);
  // Nothing trains, so the cut is the present state.
  CHECK(cuts.Order({.greatest = 11, .end = 11, .rounds_a_second = 50}) == 11);
  // The known end is outdated.
  CHECK(cuts.Order({.greatest = 12, .end = 11, .rounds_a_second = 50}) == 12);
}

TEST_CASE("a cut that was ordered too late is ordered twice as far ahead, until one is taken") {
  Cuts cuts;
  const CutView view{.greatest = 100, .end = 1u << 30, .rounds_a_second = 8};
  CHECK(cuts.Order(view) == 110);
  cuts.OutOfRange();
  CHECK(cuts.Order(view) == 120);
  cuts.OutOfRange();
  CHECK(cuts.Order(view) == 140);
  CHECK(cuts.Order({.greatest = 100, .end = 105, .rounds_a_second = 8}) == 105);
  cuts.Taken();
  CHECK(cuts.Order(view) == 110);
}

TEST_CASE("a rate that cannot be and very many late orders end at the end") {
  Cuts cuts;
  for (int i = 0; i < 1000; ++i) cuts.OutOfRange();
  CutView view{.greatest = 5, .end = uint64_t{1} << 60, .rounds_a_second = 1};
  CHECK(cuts.Order(view) == 5 + (uint64_t{3} << 20));
  view.rounds_a_second = std::numeric_limits<double>::infinity();
  CHECK(cuts.Order(view) <= view.end);
  view.rounds_a_second = std::numeric_limits<double>::quiet_NaN();
  CHECK(cuts.Order(view) == 5 + (uint64_t{2} << 20));
  view.rounds_a_second = -1;
  CHECK(cuts.Order(view) == 5 + (uint64_t{2} << 20));
}

TEST_CASE("at a planned end the cut is the greatest state, and one further ahead is void") {
  Cuts cuts;
  cuts.OutOfRange();
  const CutView view{.greatest = 10, .end = 1000, .rounds_a_second = 30, .planned_end = true};
  CHECK(cuts.Order(view) == 10);
  CHECK(Cuts::IsVoid(11, view));
  CHECK_FALSE(Cuts::IsVoid(10, view));
  CHECK_FALSE(Cuts::IsVoid(11, {.greatest = 10, .end = 1000}));
}

TEST_CASE("for a move the cut is where training rests, and one at another state is void") {
  const CutView view{.greatest = 10, .end = 1000, .planned_end = true, .rest = 14};
  CHECK(Cuts().Order(view) == 14);
  CHECK_FALSE(Cuts::IsVoid(14, view));
  CHECK(Cuts::IsVoid(12, view));
  CHECK(Cuts::IsVoid(15, view));
}

}  // namespace
}  // namespace paracord
