// Tests `paracord status` on a running coordinator.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <sstream>
#include <thread>

#include "cli/answering.h"
#include "cli/commands.h"
#include "cli/status_watch.h"
#include "common/json_text.h"
#include "net/echo.h"
#include "net/grpc/network.h"
#include "tests/coordinator/core_harness.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

struct StatusRan {
  int code;
  std::string out, err, address;
};

// Runs `paracord status` on a coordinator that answers with `status`.
StatusRan AskWhoSays(const std::string& status) {
  Answering coordinator(status);
  const TestDirectory directory;
  GrpcNetwork network;
  const std::string address = "unix:" + directory / "coordinator";
  const auto listener = network.Listen(address, coordinator);
  REQUIRE(listener.ok());
  std::ostringstream out, err;
  const std::vector<std::string> args = {"--address", address};
  const int code = RunStatus(args, out, err);
  return {code, out.str(), err.str(), address};
}

std::string StatusOf(CoreHarness& harness) {
  const StatusRan ran = AskWhoSays(harness.Told().StatusJson());
  INFO(ran.err);
  CHECK(ran.code == 0);
  return ran.out;
}

TEST_CASE("status names each checkpoint that is refused, with why") {
  FoundInDir found;
  found.unreadable = {{"step-4-g1-r1", "/job/checkpoints/step-4-g1-r1/MANIFEST.json: damaged"}};
  CoreHarness harness({}, found);
  CHECK(StatusOf(harness).find("\ncheckpoint step-4-g1-r1 is refused: /job/checkpoints/"
                               "step-4-g1-r1/MANIFEST.json: damaged\n") != std::string::npos);
}

TEST_CASE("status shows how many partitions are on two ps, and who has no room") {
  CoreHarness harness([](Job& job) {
    job.partitioner.copies = 1;
    job.checkpoint.every_seconds = 0.5;
  });
  harness.prepare_status = absl::ResourceExhaustedError("--memory-limit is 1 GiB");
  const WorkReply reply = harness.Work(harness.Join("worker:0"));
  harness.Enter(reply.lease());
  harness.Work(1, {CoreHarness::Done(reply.lease())}, false);
  harness.Run(3000);
  const std::string out = StatusOf(harness);
  CHECK(out.find("copies: 0 of 4 partitions are on two ps, 781.2 KiB on one\n") !=
        std::string::npos);
  CHECK(out.find("ps:1 has no room for copies: --memory-limit is 1 GiB") != std::string::npos);
}

// What status prints of ps:1, which is lost and stays away.
std::string LineOfLostPs(const std::function<void(Job&)>& edit) {
  CoreHarness harness(edit);
  REQUIRE(harness.Join("worker:0") != 0);
  harness.dead.insert(1);
  harness.Feed(PsAnswerEvent{1, harness.hold_tags[1], absl::UnavailableError("connection lost")});
  harness.Run(3000);
  const std::string out = StatusOf(harness);
  const size_t line = out.find("  ps:1 ");
  REQUIRE(line != std::string::npos);
  return out.substr(line, out.find('\n', line) - line);
}

TEST_CASE("status says how long a ps has been away, and how long the job waits for it") {
  CHECK_THAT(LineOfLostPs([](Job& job) { job.timeouts.ps_return_s = 40; }),
             Catch::Matches("  ps:1 +away +.*, away for 3\\.\\d s of at most 40 s "
                            "\\(timeouts\\.ps_return_s\\): .*"));
  // Its partitions go on with their other holders.
  CHECK_THAT(LineOfLostPs([](Job& job) {
               job.partitioner.copies = 1;
               job.guarantees.consistency = "sync";
               job.guarantees.recovery = "rollback";
               job.guarantees.round_batches = 2;
               job.split_batches.reset();
             }),
             Catch::Matches("  ps:1 +away +.*, away for 3\\.\\d s, and the job goes on without "
                            "it: .*"));
}

TEST_CASE("status tells new copies of partitions from a move to other ps") {
  nlohmann::json status = JsonOf(CoreHarness().Told().StatusJson());
  status["move"] = {{"ps", 3}, {"partitions", 4}, {"phase", "loading"}};
  CHECK(AskWhoSays(TextOf(status)).out.find("\nmove to 3 ps: loading\n") != std::string::npos);
  status["move"]["copies"] = true;
  CHECK(AskWhoSays(TextOf(status)).out.find("\nnew copies of 4 partitions: loading\n") !=
        std::string::npos);
}

TEST_CASE(
    "status shows the bytes that slow readers pin on each ps, and how many requests wait for "
    "them") {
  CoreHarness harness;
  harness.ps[1].set_pinned_bytes(uint64_t{300} << 20);
  harness.ps[1].set_waiting_exchanges(2);
  const uint64_t session = harness.Join("worker:0");
  for (int i = 0; i < 5; ++i) {  // the coordinator asks the ps again
    harness.Work(session);
    harness.Run(1000);
  }
  const std::string out = StatusOf(harness);
  INFO(out);
  CHECK(out.find("waiting: 2 exchanges wait for slow readers of ps:1, which pin 300 MiB (its "
                 "--pinned-mb)\n") != std::string::npos);
  const size_t ps0 = out.find("  ps:0 "), ps1 = out.find("  ps:1 ");
  REQUIRE(ps0 < ps1);
  CHECK(out.substr(ps1).find(", 314.6 MB pinned by readers\n") != std::string::npos);
  CHECK(out.substr(ps0, ps1 - ps0).find("pinned") == std::string::npos);
}

TEST_CASE("status says in one line how far the rounds of a job are") {
  CoreHarness harness;
  nlohmann::json status = JsonOf(harness.Told().StatusJson());
  const auto says = [&] { return AskWhoSays(TextOf(status)).out; };
  CHECK(says().find("\nround ") == std::string::npos);
  status["rounds"] = {{"round", 812}, {"rounds", 9000}, {"rollbacks", 0}};
  CHECK(says().find("\nround 812 of 9000\n") != std::string::npos);
  status["rounds"].update({{"waits_for", "worker:1"}, {"seconds_a_round", 0.02}, {"rollbacks", 2}});
  CHECK(says().find("\nround 812 of 9000, waits for worker:1, 0.02 s a round, back to a checkpoint "
                    "2 times\n") != std::string::npos);
  status["rounds"] = {{"round", 812}, {"rounds", 9000}, {"backups", 5}};
  CHECK(says().find("\nround 812 of 9000, 5 lanes given to a second worker\n") !=
        std::string::npos);
}

TEST_CASE("status says after a restore which batches are computed again, until they are") {
  CoreHarness harness;
  nlohmann::json status = JsonOf(harness.Told().StatusJson());
  const auto says = [&] { return AskWhoSays(TextOf(status)).out; };
  CHECK(says().find("computed again") == std::string::npos);
  status["again_to"] = 416;
  CHECK(says().find("\nafter a restore: batches up to 416 are computed again\n") !=
        std::string::npos);
}

TEST_CASE("status has a line for each growing table") {
  CoreHarness harness;
  nlohmann::json status = JsonOf(harness.Told().StatusJson());
  CHECK_FALSE(status.contains("tables"));
  status["tables"]["user/embeddings"] = {{"rows", 12},   {"bytes", 3400000}, {"admitted", 20},
                                         {"expired", 5}, {"evicted", 3},     {"dropped", 7}};
  const StatusRan ran = AskWhoSays(TextOf(status));
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(ran.out.find("  table user/embeddings: 12 rows, 3.4 MB; 20 admitted, 5 expired, 3 evicted, "
                     "7 gradients dropped\n") != std::string::npos);
}

TEST_CASE(
    "an answer that is no coordinator's, or another version's, is an error with its address") {
  const auto [text, code] =
      GENERATE(std::pair<std::string, int>("", 202), std::pair<std::string, int>("{}", 202),
               std::pair<std::string, int>("[]", 202), std::pair<std::string, int>("3", 202),
               std::pair<std::string, int>(R"({"phase": 7, "run_id": "r", "generation": 1})", 202),
               std::pair<std::string, int>(R"({"phase": "p", "run_id": "r", "generation": 1})", 4));
  CAPTURE(text);
  const StatusRan ran = AskWhoSays(text);
  INFO(ran.err);
  CHECK(ran.code == code);
  CHECK(ran.err.find(ran.address + " answers") != std::string::npos);
}

TEST_CASE("a watch says what answers instead of a coordinator, and keeps the last status") {
  CoreHarness harness;
  const std::string status = harness.Told().StatusJson();
  const TestDirectory directory;
  GrpcNetwork network;
  const std::string address = "unix:" + directory / "coordinator";
  StatusWatch watch(network, address);
  const auto ask = [&](const std::string& answer) {
    Answering answering(answer);
    const auto listener = network.Listen(address, answering);
    REQUIRE(listener.ok());
    REQUIRE(Soon([&] {
      watch.Ask();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return answer == status ? watch.newest().has_value() && watch.problem().empty()
                              : watch.problem().find("answers, but") != std::string::npos;
    }));
  };
  const std::string strange = GENERATE("", "<html>", "{}", "[]");
  CAPTURE(strange);
  ask(strange);
  CHECK(watch.problem() == address + " answers, but not as a coordinator does");
  CHECK_FALSE(watch.newest().has_value());
  ask(status);
  ask(strange);
  CHECK(watch.newest().has_value());
}

TEST_CASE("status of a directory shows no other job that has its coordinator's address by now") {
  CoreHarness harness;
  harness.Join("worker:0");
  Answering coordinator(harness.Told().StatusJson());
  const TestDirectory directory;
  GrpcNetwork network;
  const std::string address = "unix:" + directory / "coordinator";
  const auto listener = network.Listen(address, coordinator);
  REQUIRE(listener.ok());
  PosixFiles files;
  REQUIRE(files.WriteAtomic(directory / "coordinator.address", address + "\n").ok());
  JobState state = *ParseJobState(harness.job_state, "job.state");
  const bool ours = GENERATE(true, false);
  if (!ours) state.run_id = "another";
  REQUIRE(files.WriteAtomic(directory / "job.state-1", JobStateToText(state)).ok());
  std::ostringstream out, err;
  const std::vector<std::string> args = {"--dir", directory.path()};
  CHECK(RunStatus(args, out, err) == (ours ? 0 : 202));
  CHECK(out.str().empty() != ours);
  const bool said =
      err.str().find(address + " is the address of another job's by now") != std::string::npos;
  CHECK(said != ours);
}

TEST_CASE("status at an address where nobody listens says so, and what to look at") {
  const TestDirectory directory;
  const std::string address = "unix:" + directory / "nobody";
  std::ostringstream out, err;
  const std::vector<std::string> args = {"--address", address};
  CHECK(RunStatus(args, out, err) == 202);
  INFO(err.str());
  CHECK(err.str() ==
        "paracord status: connection refused: no process listens at " + address + "\n");
}

}  // namespace
}  // namespace paracord
