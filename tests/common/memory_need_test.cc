#include "common/memory_need.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/memory_budget.h"

namespace paracord {
namespace {

constexpr uint64_t kNeededMiB = 1 << 20;

bool Holds(uint64_t limit, const MemoryNeed& need) {
  return MemoryBudget(limit)
      .HoldVariables(need.variables, need.pushed, need.rounds, need.round_rows)
      .ok();
}

TEST_CASE("a process with the least limit of a need holds it, and with a byte less it does not") {
  std::vector<MemoryNeed> needs = {
      {}, {42 * kNeededMiB, 14 * kNeededMiB}, {7, 1, 3}, {1, 0, 0, true}};
  for (uint64_t pushed = 1; pushed < 100; ++pushed) {
    needs.push_back({5 * kNeededMiB, pushed * pushed, kNeededMiB, pushed % 2 == 0});
  }
  for (const MemoryNeed& need : needs) {
    CAPTURE(need.variables, need.pushed, need.rounds, need.round_rows);
    CHECK(Holds(need.LeastLimit(), need));
    CHECK_FALSE(Holds(need.LeastLimit() - 1, need));
    // What is left for one request takes a push.
    MemoryBudget memory(need.LeastLimit());
    REQUIRE(memory.HoldVariables(need.variables, need.pushed, need.rounds, need.round_rows).ok());
    CHECK(memory.requests()->spare() >= need.pushed);
  }
}

TEST_CASE("partitions of a ps are summed, with sums of rounds for those that are pushed whole") {
  const std::vector<PartitionNeed> held = {{42 * kNeededMiB, 14 * kNeededMiB, false},
                                           {kNeededMiB, 0, true}};
  const MemoryNeed calm = NeedOfAll(held, {});
  CHECK(calm.variables == 43 * kNeededMiB);
  CHECK(calm.pushed == 14 * kNeededMiB + 14 * kNeededMiB / 64 + 64 * 1024);
  CHECK(calm.rounds == 0);
  CHECK_FALSE(calm.round_rows);
  const MemoryNeed rounds = NeedOfAll(held, {.lanes = 4, .keeps_before = true});
  CHECK(rounds.rounds == 3 * 14 * kNeededMiB);
  CHECK(rounds.round_rows);
}

}  // namespace
}  // namespace paracord
