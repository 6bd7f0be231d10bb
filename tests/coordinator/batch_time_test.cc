#include "coordinator/core/batch_time.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

TEST_CASE("the time of a batch is not known before the second report, and is then a mean") {
  BatchTime time;
  time.Add(1, 3);  // includes opening data and model
  CHECK(time.seconds() == 0);
  time.Add(0, 5);  // computed nothing
  CHECK(time.seconds() == 0);
  time.Add(2, 0.2);
  CHECK(time.seconds() == Approx(0.1));
  for (int i = 0; i < 40; ++i) time.Add(1, 0.15);
  CHECK(time.seconds() == Approx(0.15).epsilon(0.01));
}

TEST_CASE("batches that are shorter than a clock's tick are measured together") {
  BatchTime time;
  time.Add(1, 1);
  for (int i = 0; i < 49; ++i) time.Add(4, i % 2 == 0 ? 0.001 : 0);
  CHECK(time.seconds() == 0);
  for (int i = 0; i < 400; ++i) time.Add(4, i % 2 == 0 ? 0.001 : 0);
  CHECK(time.seconds() == Approx(0.000125).epsilon(0.05));
}

TEST_CASE("one report changes the time of a batch to a double or a half at most") {
  BatchTime time;
  time.Add(1, 1);
  time.Add(10, 1);
  REQUIRE(time.seconds() == Approx(0.1));
  time.Add(1, 2);  // the worker was stopped for a while
  CHECK(time.seconds() <= 0.13);
  time.Add(1000000, 1e300);
  CHECK(time.seconds() <= 0.25);
  for (int i = 0; i < 10; ++i) time.Add(uint64_t{1} << 60, 1);
  CHECK(time.seconds() >= 1e-6);
  for (int i = 0; i < 100; ++i) time.Add(10, 1);
  CHECK(time.seconds() == Approx(0.1).epsilon(0.01));
}

}  // namespace
}  // namespace paracord
