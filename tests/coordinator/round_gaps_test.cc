// A gap is reported again and again only if a state is lost.
#include "coordinator/core/round_gaps.h"

#include <catch2/catch.hpp>

#include "tests/batches.h"

namespace paracord {
namespace {

constexpr uint64_t kSession = 17;

// Reports a gap, and then reads the ledgers.
RoundGaps::Judgement Report(RoundGaps& gaps, uint32_t batch, std::vector<uint32_t> next,
                            uint64_t entered, bool served = false) {
  gaps.Note(BatchOf(2, 1, batch), kSession);
  gaps.LedgersAsked();
  return gaps.LedgersRead({2, std::move(next), entered, served});
}
bool Lost(const RoundGaps::Judgement& judgement) { return judgement.lost.has_value(); }

TEST_CASE("a batch that a partition lacks, and that three reports miss, has lost its state") {
  RoundGaps gaps;
  CHECK_FALSE(Lost(Report(gaps, 5, {6, 5}, 20)));
  CHECK_FALSE(Lost(Report(gaps, 5, {6, 5}, 20)));
  const RoundGaps::Judgement third = Report(gaps, 5, {6, 5}, 20);
  REQUIRE(Lost(third));
  CHECK(third.lost->epoch() == 2);
  CHECK(third.lost->split() == 1);
  CHECK(third.lost->batch() == 5);
  CHECK(third.untrue.empty());
}

TEST_CASE("a gap where every partition serves the state is untrue, and counts for nothing") {
  RoundGaps gaps;
  for (int i = 0; i < 9; ++i) {
    gaps.Note(BatchOf(2, 0, 5), 18);
    const RoundGaps::Judgement judgement = Report(gaps, 5, {5, 5}, 20, /*served=*/true);
    CHECK_FALSE(Lost(judgement));
    CHECK(judgement.untrue == std::set<uint64_t>{kSession, 18});
  }
  CHECK_FALSE(Lost(Report(gaps, 5, {5, 5}, 20)));
}

TEST_CASE("a batch that every partition has was computed by somebody else") {
  RoundGaps gaps;
  for (int i = 0; i < 9; ++i) {
    const RoundGaps::Judgement judgement = Report(gaps, 5, {6, 6}, 20, /*served=*/i % 2 == 0);
    CHECK_FALSE(Lost(judgement));
    CHECK(judgement.untrue.empty());
  }
}

TEST_CASE("where a partition comes further the reports are counted anew") {
  RoundGaps gaps;
  for (uint64_t i = 0; i < 9; ++i) CHECK_FALSE(Lost(Report(gaps, 5, {6, 5}, 20 + i / 2)));
}

TEST_CASE("reports that one reading of the ledgers answers count as one") {
  RoundGaps gaps;
  const RoundGaps::Reading reading{2, {5, 5}, 20, /*served=*/false};
  for (int i = 0; i < 9; ++i) gaps.Note(BatchOf(2, 1, 5), kSession);
  gaps.LedgersAsked();
  gaps.Note(BatchOf(2, 1, 5), kSession);  // the requested ledgers may predate this gap
  CHECK_FALSE(Lost(gaps.LedgersRead(reading)));
  CHECK_FALSE(Lost(gaps.LedgersRead(reading)));
  gaps.LedgersAsked();
  CHECK_FALSE(Lost(gaps.LedgersRead(reading)));
  CHECK(Lost(Report(gaps, 5, {5, 5}, 20)));
  gaps.Forget();
  CHECK_FALSE(Lost(Report(gaps, 5, {5, 5}, 20)));
}

}  // namespace
}  // namespace paracord
