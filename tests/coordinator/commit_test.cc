// Commits of a round while another coordinator commits.
#include "coordinator/commit.h"

#include <catch2/catch.hpp>

#include "tests/example_job.h"

namespace paracord {
namespace {

// Commits the first round of generation 2.
absl::Status CommitOfNext(ExampleJob& example, const CheckpointName& known) {
  CommitRound round;
  round.round = 1;
  round.directory = RoundDirectory(2, 1);
  round.newest_known = known;
  round.manifest.job_name = example.job.name;
  round.manifest.job_json = JobToJson(example.job);
  round.manifest.run_id = example.run_id;
  round.manifest.name = {.step = 4, .generation = 2, .round = 1};
  REQUIRE(example.files.MakeDirectories(example.Checkpoint(round.directory)).ok());
  return Commit(example.files, example.path("checkpoints"), round);
}

TEST_CASE("a job that an older coordinator has completed meanwhile is not completed again") {
  ExampleJob example;
  example.Commit(4, 1, {.complete = true});
  const absl::Status status = CommitOfNext(example, {});
  CHECK(absl::IsAlreadyExists(status));
  CHECK(status.message() == "another coordinator has completed the job: step-4-g1-r1");
  // The completing checkpoint was known, so the job goes on from it.
  CHECK(CommitOfNext(example, {.step = 4, .generation = 1, .round = 1}).ok());
}

TEST_CASE("a checkpoint that an older coordinator has committed meanwhile is no obstacle") {
  ExampleJob example;
  example.Commit(4, 1, {});
  CHECK(CommitOfNext(example, {}).ok());
}

}  // namespace
}  // namespace paracord
