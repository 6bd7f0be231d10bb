// Tests how long an export waits for the end of a job.
#include "cli/await_done.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "tests/fakes.h"

namespace paracord {
namespace {

using std::chrono::seconds;

// Waits in virtual time: `at` is called before each look after the first, with the seconds so far.
absl::Status Await(const TestDirectory& dir, const std::function<void(int64_t)>& at) {
  PosixFiles files;
  int64_t now = 0;
  return AwaitDone(files, dir.path(), [&] {
    at(now += 5);
    REQUIRE(now < 100'000);
    return seconds(5);
  });
}

TEST_CASE("a job that has failed for good ends the wait for it, with the reason") {
  const TestDirectory dir;
  dir.Write("summary.json", R"({"status": "failed", "reason": "a bad layer", "exit_code": 2})");
  int64_t last = 0;
  const absl::Status failed = Await(dir, [&](int64_t now) { last = now; });
  CHECK(absl::IsFailedPrecondition(failed));
  CHECK(failed.message() == "the job has failed, and nobody has started it again: a bad layer (" +
                                dir.path() + "/summary.json)");
  CHECK(seconds(last) == kFailedForGood);
}

TEST_CASE("a failure that a restart may mend is waited out for as long as restarts take") {
  const TestDirectory dir;
  dir.Write("summary.json", R"({"status": "failed", "reason": "ps:0 is lost", "exit_code": 202})");
  int64_t last = 0;
  const absl::Status failed = Await(dir, [&](int64_t now) {
    last = now;
    // The next life fails as well, by another reason.
    if (now != 3000) return;
    dir.Write("summary.json",
              R"({"status": "failed", "reason": "ps:1 is lost", "exit_code": 202})");
  });
  CHECK(failed.message().find("ps:1 is lost") != std::string::npos);
  CHECK(seconds(last) == seconds(3000) + kFailedForNow);
}

TEST_CASE("a job that goes on after a failure is waited for until it is done") {
  const TestDirectory dir;
  dir.Write("summary.json", R"({"status": "failed", "reason": "a bad layer", "exit_code": 2})");
  const absl::Status done = Await(dir, [&](int64_t now) {
    if (now == 30) std::filesystem::remove(dir / "summary.json");  // as a coordinator that begins
    if (now == 20'000) dir.Write("summary.json", R"({"status": "stopped", "exit_code": 143})");
    if (now == 90'000) dir.Write("summary.json", R"({"status": "done"})");
  });
  CHECK(done.ok());
}

TEST_CASE("a summary that is none of ours is no end of a job") {
  const TestDirectory dir;
  const absl::Status done = Await(dir, [&](int64_t now) {
    if (now == 5) dir.Write("summary.json", R"({"status": 3})");
    if (now == 500) dir.Write("summary.json", "not JSON");
    if (now == 1000) dir.Write("summary.json", R"([1])");
    if (now == 9000) dir.Write("summary.json", R"({"status": "done"})");
  });
  CHECK(done.ok());
}

}  // namespace
}  // namespace paracord
