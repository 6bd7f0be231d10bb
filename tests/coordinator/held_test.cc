// Training in rounds continues only if all partitions can serve one state.
#include "coordinator/core/held.h"

#include <catch2/catch.hpp>
#include <vector>

namespace paracord {
namespace {

using HeldPartitions = std::vector<HeldPartition>;

HeldPartition AtState(uint32_t id, uint64_t state, bool serves_before = false) {
  return {.id = id, .trained = true, .state = state, .serves_before = serves_before};
}

TEST_CASE("partitions of one state go on") {
  CHECK(NeedsRollback(3, HeldPartitions{AtState(2, 7), AtState(0, 7), AtState(1, 7)}) ==
        std::nullopt);
  CHECK(NeedsRollback(0, {}) == std::nullopt);
}

TEST_CASE("a partition one round ahead goes on only if it has the state before") {
  CHECK(NeedsRollback(2, HeldPartitions{AtState(0, 7, true), AtState(1, 6)}) == std::nullopt);
  CHECK(NeedsRollback(2, HeldPartitions{AtState(0, 7), AtState(1, 6)}) ==
        "partition 0 has applied 7 rounds and partition 1 only 6, and what was before is gone");
  // It does not help that the partition behind serves the state before.
  CHECK(NeedsRollback(2, HeldPartitions{AtState(0, 7), AtState(1, 6, true)}).has_value());
}

TEST_CASE("partitions two rounds apart roll back, whatever they have kept") {
  CHECK(NeedsRollback(
            3, HeldPartitions{AtState(0, 9, true), AtState(1, 8, true), AtState(2, 7, true)}) ==
        "partition 0 has applied 9 rounds and partition 2 only 7");
}

TEST_CASE("a partition that nobody holds rolls all back") {
  CHECK(NeedsRollback(3, HeldPartitions{AtState(0, 7), AtState(2, 7)}) ==
        "no ps holds partition 1");
  CHECK(NeedsRollback(1, {}) == "no ps holds partition 0");
  // Partitions beyond the job's do not count.
  CHECK(NeedsRollback(2, HeldPartitions{AtState(0, 7), AtState(5, 7)}).has_value());
  CHECK(NeedsRollback(1, HeldPartitions{AtState(0, 7), AtState(5, 1)}) == std::nullopt);
}

TEST_CASE("a partition that is not trained is of every state, and has to be held all the same") {
  const HeldPartition frozen{.id = 1, .trained = false, .state = 0, .serves_before = false};
  CHECK(NeedsRollback(2, HeldPartitions{AtState(0, 7), frozen}) == std::nullopt);
  CHECK(NeedsRollback(2, HeldPartitions{AtState(0, 7)}).has_value());
  CHECK(NeedsRollback(2, HeldPartitions{frozen}).has_value());
}

TEST_CASE("each of two holders of a partition has to serve the least state") {
  CHECK(NeedsRollback(1, HeldPartitions{AtState(0, 7, true), AtState(0, 6)}) == std::nullopt);
  CHECK(NeedsRollback(1, HeldPartitions{AtState(0, 7), AtState(0, 6)}).has_value());
}

}  // namespace
}  // namespace paracord
