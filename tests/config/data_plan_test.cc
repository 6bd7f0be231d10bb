#include "config/data_plan.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "tests/batches.h"

namespace paracord {
namespace {

TEST_CASE("the batches of all splits hold every record once") {
  for (uint64_t records : {1u, 7u, 64u, 65u, 1000u, 4096u}) {
    for (uint32_t batch : {1u, 3u, 64u, 5000u}) {
      for (uint32_t split_batches : {1u, 2u, 32u}) {
        const DataPlan plan = PlanOf(records, batch, split_batches);
        uint64_t examples = 0, batches = 0;
        for (uint64_t split = 0; split < SplitsPerEpoch(plan); ++split) {
          REQUIRE(BatchesInSplit(plan, split) > 0);
          REQUIRE(BatchesOfFirst(plan, split) == batches);
          for (uint32_t b = 0; b < BatchesInSplit(plan, split); ++b) {
            REQUIRE(BatchInEpoch(plan, split, b) == batches);
            const BatchId id = BatchAt(plan, /*epoch=*/3, batches);
            REQUIRE((id.epoch() == 3 && id.split() == split && id.batch() == b));
            REQUIRE(BatchExamples(plan, split, b) > 0);
            examples += BatchExamples(plan, split, b);
            ++batches;
          }
        }
        REQUIRE(examples == records);
        REQUIRE(batches == BatchesPerEpoch(plan));
      }
    }
  }
}

TEST_CASE("the lanes of an epoch hold every batch once, whatever their number") {
  for (const bool drop_last : {false, true}) {
    for (const uint64_t records : {3u, 7u, 64u, 65u, 1000u}) {
      for (const uint32_t batch : {1u, 3u}) {
        for (const uint32_t lanes : {1u, 2u, 3u, 7u, 8u, 256u}) {
          DataPlan plan = PlanOf(records, batch, 0);
          plan.set_drop_last(drop_last);
          plan.set_lanes(lanes);
          const uint64_t batches = BatchesPerEpoch(plan);
          const uint64_t rounds = DivideUp(batches, lanes);
          plan.set_split_batches(static_cast<uint32_t>(rounds));
          CAPTURE(drop_last, records, batch, lanes);
          REQUIRE(CheckDataPlan(plan).ok());
          REQUIRE(SplitsPerEpoch(plan) == std::min<uint64_t>(lanes, batches));
          std::vector<bool> seen(batches, false);
          uint64_t counted = 0, examples = 0;
          for (uint64_t lane = 0; lane < SplitsPerEpoch(plan); ++lane) {
            REQUIRE(BatchesOfFirst(plan, lane) == counted);
            // Lanes differ only in the last round.
            REQUIRE(BatchesInSplit(plan, lane) >= rounds - 1);
            REQUIRE(BatchesInSplit(plan, lane) <= rounds);
            for (uint32_t b = 0; b < BatchesInSplit(plan, lane); ++b) {
              const uint64_t place = BatchInEpoch(plan, lane, b);
              REQUIRE(place == b * lanes + lane);
              REQUIRE_FALSE(seen.at(place));
              seen[place] = true;
              const BatchId id = BatchAt(plan, /*epoch=*/2, place);
              REQUIRE((id.epoch() == 2 && id.split() == lane && id.batch() == b));
              REQUIRE(StateBefore(plan, 2, b) == 2 * rounds + b);
              REQUIRE(RoundsOfFirst(plan, 2 * batches + place + 1) == StateBefore(plan, 2, b + 1));
              examples += BatchExamples(plan, lane, b);
              ++counted;
            }
          }
          REQUIRE(counted == batches);
          REQUIRE(examples == ExamplesPerEpoch(plan));
          REQUIRE(BatchesOfFirst(plan, 2 * SplitsPerEpoch(plan)) == 2 * batches);
          REQUIRE(BatchesInSplit(plan, SplitsPerEpoch(plan)) == 0);
          for (uint64_t place = batches; place < batches + lanes; ++place) {
            const BatchId behind = BatchAt(plan, 0, place);
            REQUIRE(BatchExamples(plan, behind.split(), behind.batch()) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("the last round of an epoch may have fewer lanes, and its last batch be short") {
  const DataPlan plan = PlanOfLanes(/*records=*/95, /*batch=*/10, /*lanes=*/4);  // 10 batches
  CHECK(plan.split_batches() == 3);
  CHECK(BatchesInSplit(plan, 1) == 3);
  CHECK(BatchesInSplit(plan, 2) == 2);
  CHECK(BatchExamples(plan, 1, 2) == 5);
  CHECK(BatchExamples(plan, 2, 1) == 10);
  CHECK(BatchExamples(plan, 2, 2) == 0);
  // A job that would end within an epoch ends with a whole round.
  CHECK(UpToEndOfRound(plan, 0) == 0);
  CHECK(UpToEndOfRound(plan, 1) == 4);
  CHECK(UpToEndOfRound(plan, 4) == 4);
  CHECK(LanesOfRound(plan, 0) == 4);
  CHECK(LanesOfRound(plan, 1) == 4);
  CHECK(LanesOfRound(plan, 2) == 2);
  CHECK(LanesOfRound(plan, 3) == 0);
  CHECK(LanesOfRound(plan, UINT64_MAX) == 0);
  CHECK(LanesOfRound(PlanOfLanes(20, 10, 4), 0) == 2);
  CHECK(LanesOfRound(PlanOf(95, 10, 3), 0) == 0);
  CHECK(UpToEndOfRound(plan, 9) == 10);
  CHECK(UpToEndOfRound(plan, 10) == 10);
  CHECK(UpToEndOfRound(plan, 15) == 18);
  CHECK(BatchesOfJob(plan, 1, 15) == 18);
  CHECK(BatchesOfJob(plan, 3, std::nullopt) == 30);
  CHECK(UpToEndOfRound(PlanOf(95, 10, 3), 15) == 15);
  CHECK(RoundsOfFirst(plan, 18) == 5);  // 3 + 2
  CHECK(RoundsOfFirst(plan, 30) == 9);
  CHECK(RoundsOfFirst(PlanOf(95, 10, 3), 30) == 0);
  CHECK(SplitsOf(plan, 8) == 4);
  CHECK(BatchesOfSplit(plan, 3, 8) == 2);
  CHECK(BatchesOfSplit(plan, 0, 8) == 2);
  CHECK(SplitsOf(PlanOfLanes(20, 10, 4), 2) == 2);
}

TEST_CASE("lanes that do not fit the plan are refused by field") {
  CHECK(CheckDataPlan(PlanOfLanes(1000, 10, 256)).ok());
  CHECK(CheckDataPlan(PlanOfLanes(1000, 10, 257)).message() ==
        "data plan: lanes is 257, more than 256");
  DataPlan plan = PlanOfLanes(100, 10, 3);
  plan.set_split_batches(3);
  CHECK(CheckDataPlan(plan).message() ==
        "data plan: split_batches is 3, but with 3 lanes it is the rounds of an epoch, 4");
  plan = PlanOfLanes(uint64_t{1} << 36, 1, 2);
  plan.set_split_batches(1);
  CHECK(CheckDataPlan(plan).message() ==
        "data plan: 68719476736 batches an epoch in 2 lanes are 34359738368 rounds, more than "
        "4294967295: a larger batch or round_batches makes fewer");
}

TEST_CASE("only the last batch of an epoch is short") {
  const DataPlan plan = PlanOf(60000, 64, 32);
  CHECK(BatchesPerEpoch(plan) == 938);
  CHECK(SplitsPerEpoch(plan) == 30);
  CHECK(BatchesInSplit(plan, 0) == 32);
  CHECK(BatchesInSplit(plan, 29) == 10);
  CHECK(BatchExamples(plan, 29, 8) == 64);
  CHECK(BatchExamples(plan, 29, 9) == 32);
}

TEST_CASE("an epoch that drops its last batch has whole batches alone") {
  for (const uint64_t records : {32u, 33u, 63u, 64u, 1000u}) {
    DataPlan plan = PlanOf(records, 32, 4);
    plan.set_drop_last(true);
    CHECK(CheckDataPlan(plan).ok());
    CHECK(BatchesPerEpoch(plan) == records / 32);
    CHECK(ExamplesPerEpoch(plan) == records / 32 * 32);
    uint64_t examples = 0;
    for (uint64_t split = 0; split < SplitsPerEpoch(plan); ++split) {
      for (uint32_t b = 0; b < BatchesInSplit(plan, split); ++b) {
        CHECK(BatchExamples(plan, split, b) == 32);
        examples += 32;
      }
    }
    CHECK(examples == ExamplesPerEpoch(plan));
  }
  DataPlan few = PlanOf(31, 32, 4);
  CHECK(ExamplesPerEpoch(few) == 31);
  few.set_drop_last(true);
  CHECK(CheckDataPlan(few).message() ==
        "data plan: drop_last leaves no batch: 31 records make no whole batch of 32");
}

TEST_CASE("the first batches of an epoch are those of its first splits") {
  const DataPlan plan = PlanOf(100, 10, 4);
  CHECK(SplitsOf(plan, 0) == 0);
  CHECK(SplitsOf(plan, 5) == 2);
  CHECK(BatchesOfSplit(plan, 0, 5) == 4);
  CHECK(BatchesOfSplit(plan, 1, 5) == 1);
  CHECK(BatchesOfSplit(plan, 2, 5) == 0);
}

TEST_CASE("the batches of the first splits of a job are counted through its epochs") {
  const DataPlan plan = PlanOf(100, 10, 4);  // splits of 4, 4 and 2 batches
  CHECK(BatchesOfFirst(plan, 2) == 8);
  CHECK(BatchesOfFirst(plan, 3) == 10);
  CHECK(BatchesOfFirst(plan, 7) == 24);
  CHECK_FALSE(BatchesOfFirst(plan, std::numeric_limits<uint64_t>::max()).has_value());
  CHECK(BatchesOfFirst(PlanOf(1, 1, 0), 5) == 0);
}

TEST_CASE("splits and batches that the plan does not have are empty") {
  const DataPlan plan = PlanOf(100, 10, 4);
  CHECK(BatchesInSplit(plan, 3) == 0);
  CHECK(BatchExamples(plan, 2, 2) == 0);
  const BatchId behind = BatchAt(plan, 0, 10);
  CHECK(BatchExamples(plan, behind.split(), behind.batch()) == 0);
  CHECK(BatchesInSplit(plan, std::numeric_limits<uint64_t>::max()) == 0);
  CHECK(BatchExamples(plan, 0, std::numeric_limits<uint32_t>::max()) == 0);
}

TEST_CASE("huge plans do not overflow") {
  const DataPlan plan = PlanOf(std::numeric_limits<uint64_t>::max(), 2, 3);
  CHECK(BatchesPerEpoch(plan) == uint64_t{1} << 63);
  CHECK(BatchExamples(plan, SplitsPerEpoch(plan) - 1,
                      BatchesInSplit(plan, SplitsPerEpoch(plan) - 1) - 1) == 1);
}

TEST_CASE("an epoch has some 64 splits of 4 to 32 batches unless the job says otherwise") {
  CHECK(DefaultSplitBatches(1) == 4);
  CHECK(DefaultSplitBatches(256) == 4);
  CHECK(DefaultSplitBatches(257) == 5);
  CHECK(DefaultSplitBatches(938) == 15);
  CHECK(DefaultSplitBatches(2048) == 32);
  CHECK(DefaultSplitBatches(uint64_t{1} << 25) == 32);
}

TEST_CASE("an epoch of very many batches has larger splits, and some million of them") {
  CHECK(DefaultSplitBatches((uint64_t{1} << 25) + 1) == 33);
  const uint64_t batches = 10'000'000'000 / 32;
  CHECK(DefaultSplitBatches(batches) == 299);
  CHECK(DefaultSplitBatches(~uint64_t{0}) == 1 << 20);
}

TEST_CASE("a plan with a zero size is refused by field") {
  CHECK(CheckDataPlan(PlanOf(1, 1, 1)).ok());
  CHECK(CheckDataPlan(PlanOf(0, 1, 1)).message() == "data plan: records is 0");
  CHECK(CheckDataPlan(PlanOf(1, 0, 1)).message() == "data plan: batch is 0");
  CHECK(CheckDataPlan(PlanOf(1, 1, 0)).message() == "data plan: split_batches is 0");
  CHECK(BatchesPerEpoch(PlanOf(1, 0, 1)) == 0);
  CHECK(SplitsPerEpoch(PlanOf(1, 1, 0)) == 0);
}

TEST_CASE("a plan that is larger than any job is refused by field") {
  CHECK(CheckDataPlan(PlanOf(10'000'000'000, 32, 32)).ok());
  CHECK(CheckDataPlan(PlanOf(~uint64_t{0}, 1 << 20, 1 << 20)).message() ==
        "data plan: records is 18446744073709551615, more than 72057594037927936");
  DataPlan plan = PlanOf(1, 1, 1);
  plan.set_test_records(kRecordsMax + 1);
  CHECK(CheckDataPlan(plan).message() ==
        "data plan: test_records is 72057594037927937, more than 72057594037927936");
  CHECK(CheckDataPlan(PlanOf(kSplitsPerEpochMax * 64, 16, 4)).ok());
  CHECK(CheckDataPlan(PlanOf(kSplitsPerEpochMax * 64 + 1, 16, 4)).message() ==
        "data plan: 67108865 batches an epoch, 4 a split, are 16777217 splits, more than "
        "16777216: a larger batch or split_batches makes fewer");
}

TEST_CASE("epochs whose batches could overflow are refused") {
  const DataPlan plan = PlanOf(uint64_t{1} << 44, 16, 1 << 20);
  CHECK(CheckEpochs(plan, 1 << 16).ok());
  CHECK(CheckEpochs(plan, (1 << 16) + 1).message() ==
        "epochs: 65537 epochs of 1099511627776 batches are more than 72057594037927936 batches");
}

}  // namespace
}  // namespace paracord
