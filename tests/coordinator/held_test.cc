// Training in rounds continues only if all partitions can serve one state.
#include "coordinator/core/held.h"

#include <catch2/catch.hpp>
#include <optional>
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

using OfPs = std::vector<HeldPartitions>;

std::vector<bool> Chosen(uint32_t partitions, const OfPs& held, uint64_t least = 0) {
  const std::optional<CommonHolders> common = ChooseHolders(partitions, held, least);
  return common.has_value() ? common->serves : std::vector<bool>();
}

TEST_CASE("holders of one state all go on") {
  const HeldPartitions both = {AtState(0, 7), AtState(1, 7)};
  CHECK(ChooseHolders(2, OfPs{both, both}, 0)->state == 7);
  CHECK(Chosen(2, {both, both, {}}) == std::vector<bool>{true, true, false});
  // Each partition needs one holder, whichever that is.
  CHECK(Chosen(2, {{AtState(0, 7)}, {AtState(1, 7)}}) == std::vector<bool>{true, true});
  CHECK(Chosen(3, {{AtState(0, 7)}, {AtState(1, 7)}}).empty());
  CHECK(Chosen(1, {}).empty());
}

TEST_CASE("the greatest state that some holder of every partition serves goes on") {
  const OfPs apart = {{AtState(0, 9)}, {AtState(0, 7)}};
  CHECK(ChooseHolders(1, apart, 0)->state == 9);
  CHECK(Chosen(1, apart) == std::vector<bool>{true, false});
  // A round ahead with the state before.
  CHECK(ChooseHolders(2, OfPs{{AtState(0, 7, true)}, {AtState(1, 6)}}, 0)->state == 6);
  CHECK(Chosen(2, {{AtState(0, 7, true)}, {AtState(1, 6)}}) == std::vector<bool>{true, true});
  CHECK(Chosen(2, {{AtState(0, 7)}, {AtState(1, 6)}}).empty());
  // One holder of partition 1 is behind, and the other one is not.
  const HeldPartitions first = {AtState(0, 7), AtState(1, 7)};
  CHECK(Chosen(2, {first, {AtState(1, 6)}, {AtState(0, 7)}}) ==
        std::vector<bool>{true, false, true});
}

TEST_CASE("a ps serves a state if all that it holds does") {
  // Ps 0 has partition 0 alone at state 7, and pushes name all partitions of a ps.
  const OfPs torn = {{AtState(0, 7), AtState(1, 5)}, {AtState(1, 7)}, {AtState(0, 5)}};
  CHECK(Chosen(2, torn).empty());
  const OfPs whole = {{AtState(0, 7), AtState(1, 5)}, {AtState(1, 7)}, {AtState(0, 7)}};
  CHECK(Chosen(2, whole) == std::vector<bool>{false, true, true});
}

TEST_CASE("a state older than the newest checkpoint is not gone on from") {
  const OfPs held = {{AtState(0, 7, true)}, {AtState(0, 6)}};
  CHECK(ChooseHolders(1, held, 7)->state == 7);
  CHECK(Chosen(1, held, 8).empty());
}

TEST_CASE("a holder of partitions that are not trained serves every state") {
  const HeldPartition frozen{.id = 1, .trained = false, .state = 0, .serves_before = false};
  CHECK(Chosen(2, {{AtState(0, 7)}, {frozen}}) == std::vector<bool>{true, true});
  CHECK(ChooseHolders(1, OfPs{{{.id = 0, .trained = false, .state = 0, .serves_before = false}}}, 0)
            ->state == 0);
}

}  // namespace
}  // namespace paracord
