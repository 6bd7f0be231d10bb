// A coordinator with different contents of DIR: its start, and the files that it leaves.
#include "coordinator/coordinator.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "common/json_text.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core_harness.h"
#include "proto/protocol.h"
#include "spdlog/spdlog.h"
#include "storage/sealed_json.h"
#include "tests/example_job.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// A network in which no peer answers.
class SilentNetwork : public NoNetwork {
 public:
  class SilentLink : public Link {
   public:
    void Call(std::string_view, Parts, int64_t, ReplyFn) override {}
    const std::string& address() const override { return address_; }

   private:
    const std::string address_ = "unix:/nobody";
  };
  std::unique_ptr<Link> Dial(const std::string&) override { return std::make_unique<SilentLink>(); }
};

Job SmallJob() {
  Job job;
  job.name = "j";
  job.model = nlohmann::json::object();
  job.train = {"npy", {{"features", "/f.npy"}, {"labels", "/l.npy"}}};
  job.loss = {"mean_squared_error"};
  job.optimizer = {"sgd"};
  return job;
}

// Runs a coordinator in `directory` until it gives up, because its cluster never forms within
// timeouts.start_s.
Exit RunInVain(const TestDirectory& directory, const Job& job = SmallJob()) {
  spdlog::set_level(spdlog::level::off);
  ManualLoop loop;
  ManualExecutor executor(loop);
  SilentNetwork network;
  PosixFiles files;
  SeededRandom random(1);
  std::optional<Exit> left;
  Coordinator coordinator({.job = job, .ps_addresses = {"unix:/nobody"}, .dir = directory.path()},
                          {loop, network, files, executor, random},
                          [&](int code, std::string reason) {
                            left = Exit{code, reason};
                          });
  coordinator.Start("");
  loop.Advance((job.timeouts.start_s + 10) * 1000);
  REQUIRE(left.has_value());
  return *left;
}

// The status of a coordinator while it waits for a cluster that never forms.
struct Kept {
  std::optional<Exit> left;
  nlohmann::json status;
};
Kept GoOnWith(const TestDirectory& directory, const Job& job, bool keep_job) {
  spdlog::set_level(spdlog::level::off);
  ManualLoop loop;
  ManualExecutor executor(loop);
  SilentNetwork network;
  PosixFiles files;
  SeededRandom random(1);
  Kept kept;
  CoordinatorOptions options{
      .job = job, .ps_addresses = {"unix:/nobody", "unix:/none"}, .dir = directory.path()};
  options.keep_job = keep_job;
  Coordinator coordinator(options, {loop, network, files, executor, random},
                          [&](int code, std::string reason) {
                            kept.left = Exit{code, reason};
                          });
  coordinator.Start("");
  loop.Advance(100);
  kept.status = JsonOf(coordinator.PageJson());
  return kept;
}

TEST_CASE("a job that has changed goes on as it was where that is asked for, and says so") {
  const TestDirectory directory;
  PosixFiles files;
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0") != 0);
  REQUIRE(files.WriteAtomic(directory / "job.state-1", harness.job_state).ok());
  const Job job = *ParseJob(ParseJobState(harness.job_state, "job.state")->job_json);
  Job changed = job;
  changed.batch = 32;
  changed.epochs = 7;
  const Kept refused = GoOnWith(directory, changed, /*keep_job=*/false);
  REQUIRE(refused.left.has_value());
  CHECK(refused.left->code == 2);
  const Kept kept = GoOnWith(directory, changed, /*keep_job=*/true);
  INFO((kept.left.has_value() ? kept.left->reason : ""));
  REQUIRE_FALSE(kept.left.has_value());
  CHECK(kept.status["run_id"] == "run");
  CHECK(kept.status.value("untaken", nlohmann::json()) ==
        nlohmann::json({"batch: was 10 and is now 32", "epochs: was 2 and is now 7"}));
  CHECK(TextOf(kept.status["events"]).find("batch: was 10 and is now 32") != std::string::npos);
  changed.batch = job.batch;  // more epochs alone do not make another job
  const Kept more = GoOnWith(directory, changed, /*keep_job=*/true);
  CHECK_FALSE(more.status.contains("untaken"));
  CHECK(more.status.value("epochs", 0) == 7);
}

// Read-only storage: nothing can be made in DIR.
class ReadOnlyFiles : public PosixFiles {
 public:
  absl::Status MakeDirectories(const std::string& path) override {
    if (!writable) return absl::PermissionDeniedError("cannot create " + path + ": Read-only");
    return PosixFiles::MakeDirectories(path);
  }
  bool writable = false;
};

TEST_CASE("a coordinator waits for storage that is read-only at its start, and says so") {
  const TestDirectory directory;
  ManualLoop loop;
  ManualExecutor executor(loop);
  SilentNetwork network;
  ReadOnlyFiles files;
  SeededRandom random(1);
  std::optional<Exit> left;
  Coordinator coordinator(
      {.job = SmallJob(), .ps_addresses = {"unix:/nobody"}, .dir = directory / "job"},
      {loop, network, files, executor, random}, [&](int code, std::string reason) {
        left = Exit{code, reason};
      });
  coordinator.Start("");
  loop.Advance(60000);
  CHECK_FALSE(left.has_value());
  CHECK(coordinator.Health().text.find("waits for the storage: --dir: cannot create") == 0);
  files.writable = true;
  loop.Advance(2000);
  CHECK_FALSE(left.has_value());
  CHECK(coordinator.Health().ready);
}

TEST_CASE("a run that comes to nothing leaves the summary of the job that was done") {
  const TestDirectory directory;
  PosixFiles files;
  const std::string done = R"({"status": "done", "metrics": {"test": {"accuracy": 0.9}}})";
  directory.Write(kSummaryName, done);
  for (int life = 0; life < 2; ++life) {  // the second life reads the first life's files
    CHECK(RunInVain(directory).code == 202);
    CHECK(files.ReadWhole(directory / kDoneSummaryName).value_or("") == done);
    const std::string failed = files.ReadWhole(directory / kSummaryName).value_or("");
    CHECK(failed.find("\"status\": \"failed\"") != std::string::npos);
    CHECK(failed.find("0.9") == std::string::npos);
  }
}

TEST_CASE("a summary of a job that was not done, or of nothing, is not kept") {
  for (const char* text : {R"({"status": "failed"})", "", "[", "7", R"({"status": 3})"}) {
    const TestDirectory directory;
    directory.Write(kSummaryName, text);
    CHECK(RunInVain(directory).code == 202);
    CHECK_FALSE(PosixFiles().Open(directory / kDoneSummaryName).ok());
  }
}

TEST_CASE("a worker joins as the task that its certificate names, or as any if it names none") {
  spdlog::set_level(spdlog::level::off);
  const TestDirectory directory;
  ManualLoop loop;
  ManualExecutor executor(loop);
  SilentNetwork network;
  PosixFiles files;
  SeededRandom random(1);
  Coordinator coordinator(
      {.job = SmallJob(), .ps_addresses = {"unix:/nobody"}, .dir = directory.path()},
      {loop, network, files, executor, random}, [](int, const std::string&) {});
  coordinator.Start("");
  loop.Advance(2000);
  for (const auto& [caller, may] : std::map<std::string, bool>{{"worker:1", false},
                                                               {"worker:10", false},
                                                               {"worker:0", true},
                                                               {"worker", true},
                                                               {"", true}}) {
    CAPTURE(caller);
    JoinRequest request;
    request.set_task("worker:0");
    request.set_boot_id("b");
    request.set_protocol(kProtocol);
    const auto call = std::make_shared<FakeCall>();
    call->task = caller;
    coordinator.Handle(method::kJoin, absl::Cord(request.SerializeAsString()), call);
    loop.RunPosted();
    CHECK(call->answered == 1);
    CHECK(absl::IsPermissionDenied(call->reply.status()) == !may);
  }
}

constexpr int kGoesOn = 202;  // goes on, and waits in vain for its ps

TEST_CASE("a coordinator claims a generation above all that the directory tells of") {
  // DIR may be a copy of the checkpoints, without claims.
  for (const char* name : {"checkpoints/step-4-g7-r1", "checkpoints/round-g7-r1",
                           "checkpoints/leftover-step-4-g7-r1", "job.state-7", "generation-7"}) {
    CAPTURE(name);
    ExampleJob example;
    example.Commit(1, 1, {});
    PosixFiles files;
    const bool plain = std::string(name).find('/') == std::string::npos;
    if (plain) {
      example.Write(name, "");
    } else {
      REQUIRE(files.MakeDirectories(example.path(name)).ok());
    }
    CHECK(RunInVain(example.directory, example.job).code == kGoesOn);
    CHECK(files.Open(example.path("generation-8")).ok());
  }
}

TEST_CASE("the name of a generation that counting never reaches is no claim") {
  const char* name =
      GENERATE("generation-9223372036854775808", "generation-18446744073709551615",
               "job.state-4611686018427387904", "checkpoints/round-g9223372036854775807-r1");
  CAPTURE(name);
  const TestDirectory directory;
  PosixFiles files;
  REQUIRE(files.MakeDirectories(directory / "checkpoints").ok());
  directory.Write(name, "");
  CHECK(RunInVain(directory).code == kGoesOn);
  CHECK(files.Open(directory / "generation-1").ok());
}

TEST_CASE("a job is done unless it is given more batches, or another end") {
  ExampleJob example;  // an epoch has two batches
  example.job.epochs = 2;
  example.job.stop_when = StopWhen{"accuracy", 0.9, std::nullopt};
  example.Commit(4, 1, {.complete = true});
  Job job = example.job;
  CHECK(RunInVain(example.directory, job).code == 0);
  job.epochs = 1;
  CHECK(RunInVain(example.directory, job).code == 0);
  job.epochs = 3;
  CHECK(RunInVain(example.directory, job).code == kGoesOn);
  job = example.job;
  job.stop_when->at_least = 0.95;
  CHECK(RunInVain(example.directory, job).code == kGoesOn);
  job.stop_when.reset();
  CHECK(RunInVain(example.directory, job).code == kGoesOn);
}

TEST_CASE("who is without a coordinator takes no job for done that was given more batches") {
  ExampleJob example;
  example.Commit(2, 1, {.complete = true});
  Job job = example.job;
  REQUIRE(RunInVain(example.directory, job).code == 0);
  CHECK(JobIsComplete(example.files, example.directory.path()));
  job.epochs = 3;
  REQUIRE(RunInVain(example.directory, job).code == kGoesOn);
  CHECK_FALSE(JobIsComplete(example.files, example.directory.path()));
  CHECK(VerifyCheckpoint(example.files, example.path("checkpoints/step-2-g1-r1")).ok());
}

TEST_CASE("the last checkpoint of a job that is done is read once, while the loop answers") {
  const bool sound = GENERATE(true, false);
  ExampleJob example;
  example.Commit(1, 1, {});
  example.Commit(2, 2, {.complete = true});
  if (!sound) example.Damage("step-2-g1-r2", PsFileName(0, 2));
  ManualLoop loop;
  ManualExecutor executor(loop, /*at_once=*/false);
  SilentNetwork network;
  SeededRandom random(1);
  std::optional<int> left;
  Coordinator coordinator(
      {.job = example.job, .ps_addresses = {"unix:/nobody"}, .dir = example.directory.path()},
      {loop, network, example.files, executor, random},
      [&](int code, const std::string&) { left = code; });
  coordinator.Start("");
  const auto call = std::make_shared<FakeCall>();
  coordinator.Handle(method::kStatus, absl::Cord(), call);
  loop.RunPosted();
  CHECK(absl::IsUnavailable(call->reply.status()));
  CHECK(coordinator.core() == nullptr);
  CHECK_FALSE(left.has_value());
  REQUIRE(executor.RunOne());
  loop.RunPosted();
  CHECK(left == (sound ? std::optional<int>(0) : std::nullopt));
  CHECK((coordinator.core() != nullptr) == !sound);
}

TEST_CASE(
    "who watches a job is told of its end before the coordinator goes, and nobody is waited for") {
  const bool watched = GENERATE(false, true);
  ExampleJob example;
  example.Write("job.state-1", SealJson({{"format", 99}}, "state_crc32c"));
  ManualLoop loop;
  ManualExecutor executor(loop);
  SilentNetwork network;
  SeededRandom random(1);
  int left = 0;
  Coordinator coordinator(
      {.job = example.job, .ps_addresses = {"unix:/nobody"}, .dir = example.directory.path()},
      {loop, network, example.files, executor, random}, [&](int, const std::string&) { ++left; });
  if (watched) CHECK(JsonOf(coordinator.PageJson()).at("phase") == "starting");
  coordinator.Start("");
  loop.RunPosted();
  CHECK(left == (watched ? 0 : 1));
  if (!watched) return;
  loop.Advance(1000);  // until the page polls again
  CHECK(left == 0);
  const nlohmann::json last = JsonOf(coordinator.PageJson());
  CHECK(last.at("phase") == "ended");
  CHECK(last.at("exit").at("code") == static_cast<int>(ExitCode::kVersion));
  CHECK(last.at("exit").at("reason").get<std::string>().find("another format") !=
        std::string::npos);
  coordinator.Drain("SIGTERM");
  loop.Advance(10000);
  CHECK(left == 1);
}

TEST_CASE("epochs after steps are counted in batches") {
  ExampleJob example;
  example.job.steps = 1;
  example.Commit(1, 1, {.complete = true});
  Job job = example.job;
  job.steps.reset();
  CHECK(RunInVain(example.directory, job).code == kGoesOn);
}

TEST_CASE("a job.state of another version ends a coordinator with 4 and stays") {
  ExampleJob example;
  example.Commit(1, 1, {});
  const std::string state = SealJson({{"format", 99}}, "state_crc32c");
  example.Write("job.state-1", state);
  const Exit left = RunInVain(example.directory, example.job);
  CHECK(left.code == static_cast<int>(ExitCode::kVersion));
  CHECK(left.reason.find("job.state-1 is of another format") != std::string::npos);
  CHECK(example.files.ReadWhole(example.path("job.state-1")).value_or("") == state);
}

TEST_CASE("fewer batches than are applied or rejected are refused") {
  ExampleJob example;
  example.job.epochs = 9;
  example.Commit(5, 1, {.rejected = 2});
  Job job = example.job;
  job.steps = 6;
  const Exit left = RunInVain(example.directory, job);
  CHECK(left.code == 2);
  CHECK(left.reason.find(
            "steps: that is 6 batches, but the job has come to batch 7 in checkpoint") == 0);
  job.steps = 7;
  CHECK(RunInVain(example.directory, job).code == kGoesOn);
}

}  // namespace
}  // namespace paracord
