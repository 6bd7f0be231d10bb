#include "coordinator/core/rollback.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

TEST_CASE("a generation decides once, and what was wanted stays until all ps are ready") {
  Rollback rollback;
  rollback.BeginGeneration();
  CHECK_FALSE(rollback.decided());
  rollback.GoOn();
  CHECK(rollback.decided());
  CHECK_FALSE(rollback.from().has_value());
  rollback.Done();
  rollback.Want("a state is lost");
  rollback.BeginGeneration();
  CHECK_FALSE(rollback.decided());
  rollback.LoadAll("step-4-g1-r1");
  CHECK(rollback.from() == "step-4-g1-r1");
  rollback.BeginGeneration();  // before all ps were ready
  CHECK_FALSE(rollback.from().has_value());
  CHECK(rollback.wanted() == "a state is lost");
  rollback.LackCheckpoint();
  CHECK(rollback.lacks_checkpoint());
  rollback.BeginGeneration();
  CHECK_FALSE(rollback.lacks_checkpoint());
  rollback.LoadAll("");
  CHECK(rollback.from() == "");
  rollback.Done();
  CHECK(rollback.wanted().empty());
}

}  // namespace
}  // namespace paracord
