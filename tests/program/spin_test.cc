#include "program/spin.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

int TriesOf(Spin& spin, int waits, bool in_time) {
  int tries = 0;
  for (int i = 0; i < waits; ++i) {
    if (!spin.Try()) continue;
    ++tries;
    spin.Ended(in_time);
  }
  return tries;
}

TEST_CASE("a wait spins while messages come in time, and rarely while they do not") {
  Spin spin(true);
  CHECK(TriesOf(spin, 100, true) == 100);
  CHECK(TriesOf(spin, 3203, false) == 103);
  // The next packet that comes in time restores the full spin.
  CHECK(TriesOf(spin, 32, true) >= 1);
  CHECK(TriesOf(spin, 100, true) == 100);
}

TEST_CASE("nothing spins where there is no CPU to spare") {
  Spin spin(false);
  CHECK(TriesOf(spin, 100, true) == 0);
  CHECK(HasCpuBeside(0));
  CHECK_FALSE(HasCpuBeside(1 << 20));
}

}  // namespace
}  // namespace paracord
