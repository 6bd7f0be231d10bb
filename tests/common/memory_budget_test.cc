#include "common/memory_budget.h"

#include <catch2/catch.hpp>
#include <string>

namespace paracord {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Returns the total if every holder takes its maximum.
uint64_t Most(const MemoryBudget& memory) {
  uint64_t most = MemoryBudget::kProgramBytes + memory.Uses()[0].bytes;
  for (const auto* share : {&memory.requests(), &memory.replies(), &memory.staged(),
                            &memory.snapshots(), &memory.buffers()}) {
    most += (*share)->bytes_max() + (*share)->spare();
  }
  return most;
}

TEST_CASE("what everybody may hold is never more than the limit, whatever variables take") {
  for (const uint64_t limit : {uint64_t{128}, uint64_t{512}, uint64_t{24} << 10}) {
    MemoryBudget memory(limit * kMiB);
    CHECK(Most(memory) <= memory.limit());
    for (uint64_t variables = 0; variables < limit - 64; variables += 1 + limit / 50) {
      REQUIRE(memory.HoldVariables(variables * kMiB, 0).ok());
      CHECK(memory.Uses()[0].bytes == variables * kMiB);
      CHECK(Most(memory) <= memory.limit());
    }
  }
}

TEST_CASE("variables must leave room for a push, and a refusal says what is needed") {
  MemoryBudget memory(256 * kMiB);
  CHECK(memory.HoldVariables(100 * kMiB, 46 * kMiB).ok());
  CHECK(memory.requests()->spare() == 46 * kMiB);
  const absl::Status refused = memory.HoldVariables(101 * kMiB, 46 * kMiB);
  CHECK(refused.message() ==
        "variables and slots take 101.0 MiB and one push of them 46.0 MiB, for which at least "
        "257.0 MiB are needed, and --memory-limit is 256.0 MiB: give this ps more memory, or the "
        "job more ps");
  CHECK(memory.Uses()[0].bytes == 100 * kMiB);  // unchanged
  CHECK_FALSE(memory.HoldVariables(~uint64_t{0}, ~uint64_t{0}).ok());
  CHECK_FALSE(memory.HoldVariables(193 * kMiB, 0).ok());
}

TEST_CASE("a refusal of a part of a process's memory says what the process needs") {
  MemoryBudget memory(128 * kMiB, {}, /*parts=*/2);
  CHECK(memory.limit() == 128 * kMiB);
  CHECK(memory.process_limit() == 256 * kMiB);
  CHECK(memory.LimitText() == "the part 128.0 MiB of --memory-limit 256.0 MiB");
  CHECK(MemoryBudget(128 * kMiB).LimitText() == "--memory-limit 128.0 MiB");
  const absl::Status refused = memory.HoldVariables(50 * kMiB, 10 * kMiB);
  CHECK(refused.message() ==
        "variables and slots take 50.0 MiB and one push of them 10.0 MiB, for which at least "
        "268.0 MiB are needed, and --memory-limit is 256.0 MiB, of which the worker needs as much "
        "as the ps in it: give this worker more memory, or, where the job's `strategy` has several "
        "workers, the cluster more of them");
  CHECK(MemoryBudget(134 * kMiB, {}, 2).HoldVariables(50 * kMiB, 10 * kMiB).ok());
}

TEST_CASE("rounds are held beside variables, and a refusal names the key that makes them smaller") {
  MemoryBudget memory(256 * kMiB);
  CHECK(memory.HoldVariables(60 * kMiB, 46 * kMiB, 40 * kMiB).ok());
  CHECK(memory.requests()->spare() == 46 * kMiB);
  REQUIRE(memory.Uses()[1].holder == "rounds");
  CHECK(memory.Uses()[1].bytes == 40 * kMiB);
  CHECK(Most(memory) <= memory.limit());
  memory.CountVariables(62 * kMiB);
  CHECK(memory.requests()->spare() == 46 * kMiB);
  const absl::Status refused = memory.HoldVariables(60 * kMiB, 46 * kMiB, 41 * kMiB);
  CHECK(refused.message() ==
        "variables and slots take 60.0 MiB and one push of them 46.0 MiB, and rounds 41.0 MiB, for "
        "which at least 257.0 MiB are needed, and --memory-limit is 256.0 MiB: give this ps more "
        "memory, or the job more ps, or \"round_batches\" a smaller number");
  CHECK(memory.Uses()[1].bytes == 40 * kMiB);  // unchanged
  CHECK(memory.HoldVariables(60 * kMiB, 46 * kMiB).ok());
  CHECK(memory.Uses()[1].holder == "requests");
}

TEST_CASE("the rows of tables in rounds have a quarter of what variables leave") {
  MemoryBudget memory(256 * kMiB);
  REQUIRE(memory.HoldVariables(60 * kMiB, 10 * kMiB, 4 * kMiB, /*round_rows=*/true).ok());
  CHECK(memory.rounds()->bytes_max() == 32 * kMiB);
  CHECK(memory.requests()->spare() == 48 * kMiB);
  CHECK(Most(memory) <= memory.limit());
  REQUIRE(memory.rounds()->Reserve(30 * kMiB));
  CHECK_FALSE(memory.rounds()->Reserve(3 * kMiB));
  REQUIRE(memory.Uses()[1].holder == "rounds");
  CHECK(memory.Uses()[1].bytes == 34 * kMiB);
  CHECK(memory.Uses()[1].bytes_max == 36 * kMiB);
  memory.CountVariables(124 * kMiB);
  CHECK(memory.rounds()->bytes_max() == 16 * kMiB);
  // A push may take half of the memory left beside the rows.
  CHECK_FALSE(memory.HoldVariables(60 * kMiB, 49 * kMiB, 4 * kMiB, true).ok());
  CHECK(memory.HoldVariables(60 * kMiB, 49 * kMiB, 4 * kMiB).ok());
}

TEST_CASE("rows that outgrow the limit leave an eighth of it for the others, and say so once") {
  MemoryBudget memory(256 * kMiB);
  REQUIRE(memory.HoldVariables(10 * kMiB, kMiB).ok());
  CHECK_FALSE(memory.CountVariables(160 * kMiB));  // leaves 32 MiB
  CHECK(memory.requests()->spare() == 16 * kMiB);
  CHECK(memory.CountVariables(161 * kMiB));
  CHECK_FALSE(memory.CountVariables(~uint64_t{0}));
  CHECK(memory.requests()->spare() == 16 * kMiB);
  CHECK(memory.requests()->bytes_max() == 6 * kMiB);
  CHECK(memory.staged()->bytes_max() == 2 * kMiB);
  CHECK_FALSE(memory.CountVariables(10 * kMiB));
  CHECK(memory.requests()->spare() == 91 * kMiB);
  CHECK_FALSE(memory.CountVariables(200 * kMiB));
  REQUIRE(memory.HoldVariables(10 * kMiB, kMiB).ok());  // another job
  CHECK(memory.CountVariables(200 * kMiB));
}

TEST_CASE("variables that grow make shares smaller as long as a push fits") {
  MemoryBudget memory(256 * kMiB);
  REQUIRE(memory.HoldVariables(50 * kMiB, 40 * kMiB).ok());
  CHECK(memory.requests()->spare() == 71 * kMiB);
  memory.CountVariables(112 * kMiB);
  CHECK(memory.Uses()[0].bytes == 112 * kMiB);
  CHECK(memory.requests()->spare() == 40 * kMiB);
  CHECK(Most(memory) <= memory.limit());
  memory.CountVariables(113 * kMiB);
  CHECK(memory.Uses()[0].bytes == 113 * kMiB);
  CHECK(memory.requests()->spare() == 40 * kMiB);  // unchanged
  memory.CountVariables(~uint64_t{0});
  CHECK(memory.requests()->spare() == 40 * kMiB);
  memory.CountVariables(50 * kMiB);  // rows have expired
  CHECK(memory.requests()->spare() == 71 * kMiB);
}

TEST_CASE("variables are not among what a process could give back") {
  MemoryBudget memory(256 * kMiB);
  CHECK_FALSE(memory.MuchBesideVariables(128 * kMiB));
  CHECK(memory.MuchBesideVariables(129 * kMiB));
  REQUIRE(memory.HoldVariables(150 * kMiB, 0).ok());
  CHECK_FALSE(memory.MuchBesideVariables(100 * kMiB));  // the variables are not all loaded yet
  CHECK_FALSE(memory.MuchBesideVariables(203 * kMiB));
  CHECK(memory.MuchBesideVariables(204 * kMiB));
  memory.CountVariables(300 * kMiB);
  CHECK_FALSE(memory.MuchBesideVariables(316 * kMiB));
  CHECK(memory.MuchBesideVariables(317 * kMiB));
}

TEST_CASE("shares are capped, and without a limit the caps alone count") {
  MemoryBudget::Caps caps;
  caps.requests = 10 * kMiB;
  const MemoryBudget large(uint64_t{1} << 40, caps);
  CHECK(large.requests()->bytes_max() == 10 * kMiB);
  CHECK(large.snapshots()->bytes_max() == 2048 * kMiB);
  const MemoryBudget unlimited;
  CHECK_FALSE(unlimited.limited());
  CHECK(unlimited.replies()->bytes_max() == uint64_t{2} << 30);
  CHECK(unlimited.requests()->spare() == uint64_t{64} << 30);
}

TEST_CASE("a reservation is refused above the share and ends with its owner") {
  MemoryShare share(100, 0);
  {
    MemoryReservation one(share);
    CHECK(one.More(60));
    CHECK(one.More(40));
    CHECK_FALSE(one.More(1));
    CHECK(share.bytes() == 100);
    MemoryReservation other(share);
    CHECK_FALSE(other.More(1));
    CHECK_FALSE(other.More(~uint64_t{0}));
  }
  CHECK(share.bytes() == 0);
  CHECK(share.Reserve(100));
}

TEST_CASE("uses say who holds what") {
  MemoryBudget memory(1024 * kMiB);
  REQUIRE(memory.HoldVariables(7, 0).ok());
  memory.requests()->Add(5);
  memory.replies()->Subtract(3);  // briefly negative
  std::string text;
  for (const MemoryUse& use : memory.Uses()) {
    text += use.holder + " " + std::to_string(use.bytes) + ", ";
    CHECK(use.bytes_max > 0);
  }
  CHECK(text ==
        "variables 7, requests 5, replies 0, staged 0, snapshots 0, buffers 0, "
        "restores 0, arena 0, ");
}

}  // namespace
}  // namespace paracord
