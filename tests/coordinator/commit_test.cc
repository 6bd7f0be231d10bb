// Commits of a round while another coordinator commits.
#include "coordinator/commit.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>

#include "coordinator/core/job_state.h"
#include "coordinator/generations.h"
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

// Files of a coordinator that writes its summary while a newer one completes the job. The first
// summary is written, and `then` happens.
class Overtaken : public PosixFiles {
 public:
  Overtaken(std::function<void()> then, bool full) : then_(std::move(then)), full_(full) {}
  absl::Status WriteAtomic(const std::string& path, std::string_view contents) override {
    const auto once = std::exchange(then_, nullptr);
    if (once == nullptr && full_) return absl::ResourceExhaustedError(path + ": no space left");
    const absl::Status written = PosixFiles::WriteAtomic(path, contents);
    if (once != nullptr) once();
    return written;
  }

 private:
  std::function<void()> then_;
  const bool full_;
};

TEST_CASE("the summary of a job that a newer coordinator completes is written again, or said") {
  const bool full = GENERATE(false, true);
  ExampleJob example;
  const std::string dir = example.directory.path();
  REQUIRE(Claim(example.files, dir, 1, "first").ok());
  Overtaken files(
      [&] {
        REQUIRE(Claim(example.files, dir, 2, "second").ok());
        example.Commit(4, 2, {.complete = true});
      },
      full);
  const absl::Status written = WriteLastSummary(files, dir, 1, R"({"status": "failed"})");
  CHECK(absl::IsAborted(written));
  const std::string text = example.files.ReadWhole(dir + "/" + kSummaryName).value();
  CHECK((text.find("failed") != std::string::npos) == full);
  const std::string said(written.message());
  INFO(said);
  CHECK((said.find("step-4-g1-r2") != std::string::npos) == full);
  CHECK((said.find("could not be written again: " + dir + "/summary.json: no space left") !=
         std::string::npos) == full);
}

}  // namespace
}  // namespace paracord
