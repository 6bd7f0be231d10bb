// The summary of a finished job waits for a claim of its coordinator, as every summary does.
#include "coordinator/core/summary_writer.h"

#include <catch2/catch.hpp>

#include "absl/status/status.h"
#include "coordinator/core/effects.h"
#include "coordinator/core/generation.h"

namespace paracord {
namespace {

TEST_CASE("a finished job's summary has the generation of a claim that was under way") {
  Effects effects;
  SummaryWriter writer(effects);
  Generation generation(3);
  const uint64_t next = generation.BeginClaim();
  writer.SayDone("{}", generation);
  CHECK(effects.Take().empty());
  REQUIRE(generation.EndClaim(next, absl::OkStatus(), 0) == Generation::Claim::kNext);
  writer.ClaimEnded(generation);
  const auto written = effects.Take();
  REQUIRE(written.size() == 1);
  CHECK(std::get<WriteSummary>(written[0]).generation == 4);
  CHECK(writer.done());
}

TEST_CASE("a finished job's summary that failed is repeated only after a claim") {
  Effects effects;
  SummaryWriter writer(effects);
  Generation generation(3);
  writer.SayDone("{}", generation);
  REQUIRE(effects.Take().size() == 1);
  REQUIRE_FALSE(writer.Failed(0));
  const uint64_t next = generation.BeginClaim();
  writer.Tick(generation, 60'000);
  CHECK(effects.Take().empty());
  REQUIRE(generation.EndClaim(next, absl::OkStatus(), 0) == Generation::Claim::kNext);
  writer.ClaimEnded(generation);
  const auto written = effects.Take();
  REQUIRE(written.size() == 1);
  CHECK(std::get<WriteSummary>(written[0]).generation == 4);
}

}  // namespace
}  // namespace paracord
