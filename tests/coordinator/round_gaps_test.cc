// A gap is reported time and again only where a state is lost.
#include "coordinator/core/round_gaps.h"

#include <catch2/catch.hpp>

#include "tests/batches.h"

namespace paracord {
namespace {

// A worker reports the gap, and then the ledgers are read.
std::optional<BatchId> Report(RoundGaps& gaps, uint32_t batch, std::vector<uint32_t> next,
                              uint64_t entered) {
  gaps.Note(BatchOf(2, 1, batch));
  gaps.LedgersAsked();
  return gaps.LedgersRead(2, next, entered);
}

TEST_CASE("a batch that a partition lacks, and that three reports miss, has lost its state") {
  RoundGaps gaps;
  CHECK_FALSE(Report(gaps, 5, {6, 5}, 20).has_value());
  CHECK_FALSE(Report(gaps, 5, {6, 5}, 20).has_value());
  const std::optional<BatchId> lost = Report(gaps, 5, {6, 5}, 20);
  REQUIRE(lost.has_value());
  CHECK(lost->epoch() == 2);
  CHECK(lost->split() == 1);
  CHECK(lost->batch() == 5);
}

TEST_CASE("a batch that every partition has was computed by somebody else") {
  RoundGaps gaps;
  for (int i = 0; i < 9; ++i) CHECK_FALSE(Report(gaps, 5, {6, 6}, 20).has_value());
}

TEST_CASE("where a partition comes further the reports are counted anew") {
  RoundGaps gaps;
  for (uint64_t i = 0; i < 9; ++i) CHECK_FALSE(Report(gaps, 5, {6, 5}, 20 + i / 2).has_value());
}

TEST_CASE("reports that one reading of the ledgers answers count as one") {
  RoundGaps gaps;
  for (int i = 0; i < 9; ++i) gaps.Note(BatchOf(2, 1, 5));
  gaps.LedgersAsked();
  gaps.Note(BatchOf(2, 1, 5));  // the ledgers under way may not tell of this one
  CHECK_FALSE(gaps.LedgersRead(2, {5, 5}, 20).has_value());
  CHECK_FALSE(gaps.LedgersRead(2, {5, 5}, 20).has_value());
  gaps.LedgersAsked();
  CHECK_FALSE(gaps.LedgersRead(2, {5, 5}, 20).has_value());
  CHECK(Report(gaps, 5, {5, 5}, 20).has_value());
  gaps.Forget();
  CHECK_FALSE(Report(gaps, 5, {5, 5}, 20).has_value());
}

}  // namespace
}  // namespace paracord
