#include "coordinator/core/generation.h"

#include <catch2/catch.hpp>

#include "coordinator/core/limits.h"

namespace paracord {
namespace {

TEST_CASE("a generation that was claimed is unused and wants no other") {
  Generation generation(3);
  generation.Use();
  generation.Want("a batch is rejected");
  CHECK(generation.used());
  CHECK(generation.wanted() == "a batch is rejected");
  CHECK(generation.BeginClaim() == 4);
  CHECK(generation.claiming());
  CHECK(generation.claimed() == 3);
  CHECK(generation.EndClaim(4, absl::OkStatus(), 0) == Generation::Claim::kNext);
  CHECK(generation.claimed() == 4);
  CHECK_FALSE(generation.claiming());
  CHECK_FALSE(generation.used());
  CHECK(generation.wanted().empty());
}

TEST_CASE("a claim that failed is of the same number, after a pause") {
  Generation generation(1);
  generation.Use();
  CHECK(generation.BeginClaim() == 2);
  CHECK(generation.EndClaim(2, absl::UnavailableError("the disk is full"), 100) ==
        Generation::Claim::kFailed);
  CHECK(generation.problem() == "no generation can be claimed: the disk is full");
  CHECK(generation.claimed() == 1);
  CHECK(generation.used());
  CHECK_FALSE(generation.MayClaim(100 + kRepeatMs - 1));
  CHECK(generation.MayClaim(100 + kRepeatMs));
  CHECK(generation.BeginClaim() == 2);
  CHECK(generation.EndClaim(2, absl::OkStatus(), 2000) == Generation::Claim::kNext);
  CHECK(generation.problem().empty());
}

TEST_CASE("a number that another coordinator has claimed is lost and changes nothing") {
  Generation generation(1);
  CHECK(generation.BeginClaim() == 2);
  CHECK(generation.EndClaim(2, absl::AlreadyExistsError("exists"), 0) == Generation::Claim::kLost);
  CHECK(generation.claimed() == 1);
  CHECK(generation.newest() == 2);
}

TEST_CASE("the claim after a generation that a ps obeys leaps over those between") {
  Generation generation(1);
  generation.Skip(7);
  CHECK(generation.BeginClaim() == 8);
  CHECK(generation.EndClaim(8, absl::OkStatus(), 0) == Generation::Claim::kLeapt);
  CHECK(generation.claimed() == 8);
}

}  // namespace
}  // namespace paracord
