// When a ps exits by itself, and what keeps it alive (server/leaving.cc).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "spdlog/sinks/ringbuffer_sink.h"
#include "tests/example_job.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

void WriteManifest(TestPs& ps, const CheckpointName& name, bool complete) {
  Manifest manifest;
  manifest.run_id = TestPs::kRun;
  manifest.plan = TestModel().plan;
  manifest.name = name;
  manifest.complete = complete;
  const std::string directory = ps.dir() + "/checkpoints/" + name.ToString();
  REQUIRE(ps.files.MakeDirectories(directory).ok());
  REQUIRE(ps.files.WriteAtomic(directory + "/" + kManifestName, ManifestToText(manifest)).ok());
}

TEST_CASE("a ps without a coordinator leaves in time, with 202 or with the job's end") {
  TestModel model;
  model.job.timeouts.orphan_ms = 5000;
  {
    TestPs ps(model);
    ps.loop.Advance(599999);
    CHECK(ps.exits.empty());
    ps.loop.Advance(1);
    CHECK(ps.exits == std::vector<int>{202});
  }
  {
    TestPs ps(model);
    ps.Ready();
    const auto hold = ps.Send(method::kPsHold, HoldOrder(ps));
    ps.loop.Advance(3000000);  // a coordinator's PsHold keeps the ps from being an orphan
    CHECK(ps.exits.empty());
    hold->Cancel();
    ps.loop.Advance(4000);
    CHECK(ps.exits.empty());
    CHECK(ps.Adopt(2).ok());  // the coordinator has come back
    ps.loop.Advance(4999);
    CHECK(ps.exits.empty());
    ps.loop.Advance(2);
    CHECK(ps.exits == std::vector<int>{202});
  }
  {
    TestPs ps(model);
    ps.Ready();
    WriteManifest(ps, {.step = 9, .generation = 1, .round = 1}, false);
    WriteManifest(ps, {.step = 9, .generation = 1, .round = 2}, true);
    ps.loop.Advance(5001);
    CHECK(ps.exits == std::vector<int>{0});
  }
}

TEST_CASE("a ps that leaves as it was told tells the coordinator that holds on to it") {
  TestPs ps;
  ps.Ready();
  const auto first = ps.Send(method::kPsHold, HoldOrder(ps));
  ps.ps->Drain();
  ps.loop.Advance(200);
  REQUIRE(first->answered == 1);
  const auto second = ps.Send(method::kPsHold, HoldOrder(ps));
  ps.loop.Advance(1000);
  CHECK_FALSE(second->answered == 1);
  ps.loop.Advance(60000);
  CHECK(ps.exits == std::vector<int>{143});
  REQUIRE(second->answered == 1);
  CHECK(absl::IsUnavailable(second->reply.status()));
  CHECK(std::string(second->reply.status().message()) == "it has left: drained");
}

TEST_CASE("a ps that no coordinator calls any more is not ready, and says so") {
  TestModel model;
  model.job.timeouts.ps_ms = 1000;
  TestPs ps(model);
  ps.Ready();
  ps.loop.Advance(2000);
  CHECK(ps.ps->Health().ready);
  ps.loop.Advance(2000);
  CHECK_FALSE(ps.ps->Health().ready);
  CHECK(ps.ps->Health().text.find("no coordinator has called for 4 s") != std::string::npos);
  CHECK(ps.Adopt(2).ok());
  ps.loop.RunPosted();
  CHECK(ps.ps->Health().ready);
}

TEST_CASE("only a coordinator of its own run keeps a ps from being alone") {
  TestModel model;
  model.job.timeouts.orphan_ms = 5000;
  TestPs ps(model);
  ps.Ready();
  const auto look = [&](const char* run) {
    DescribeRequest request;
    if (run != nullptr) request.set_run_id(run);
    CHECK(ps.Call<PsDescription>(method::kDescribe, request).ok());
  };
  for (int second = 0; second < 10; ++second) {
    look(TestPs::kRun);
    ps.loop.Advance(1000);
  }
  CHECK(ps.exits.empty());
  look(TestPs::kRun);
  PsHoldRequest stale = HoldOrder(ps);
  stale.mutable_fence()->set_generation(7);
  for (int second = 0; second < 5; ++second) {
    CHECK(ps.exits.empty());
    ps.loop.Advance(1000);
    look("another job's");
    look(nullptr);
    CHECK(absl::IsAborted(ps.Call<PsHoldReply>(method::kPsHold, stale).status()));
    ps.Send("/paracord.Nobody/Check", DescribeRequest());  // a method unknown to a ps
  }
  ps.loop.Advance(1);
  CHECK(ps.exits == std::vector<int>{202});
}

TEST_CASE("a ps that no coordinator calls says once that it waits for one") {
  const bool called = GENERATE(false, true);
  const auto before = spdlog::default_logger();
  const auto level = spdlog::get_level();
  const auto sink = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(16);
  {
    TestPs ps;
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
    spdlog::set_level(spdlog::level::info);
    ps.loop.Advance(1000);
    DescribeRequest look;
    look.set_run_id("");
    if (called) CHECK(ps.Call<PsDescription>(method::kDescribe, look).ok());
    ps.loop.Advance(100000);
  }
  spdlog::set_default_logger(before);
  spdlog::set_level(level);
  const std::vector<std::string> said = sink->last_formatted();
  CHECK(std::ranges::count_if(said, [](const std::string& line) {
          return line.find("no coordinator has called for 10 s: waits for one") !=
                 std::string::npos;
        }) == (called ? 0 : 1));
}

TEST_CASE("a ps that holds nothing is not alone while any coordinator looks at it") {
  TestPs ps;
  for (int minute = 0; minute < 20; ++minute) {
    DescribeRequest look;
    look.set_run_id("");  // sent by a coordinator whose job has not begun
    CHECK(ps.Call<PsDescription>(method::kDescribe, look).ok());
    ps.loop.Advance(60000);
  }
  CHECK(ps.exits.empty());
}

TEST_CASE("a ps that starts after the job's end leaves with 0, unless a coordinator wants more") {
  TestPs before;
  WriteManifest(before, {.step = 9, .generation = 2, .round = 1}, true);
  TestPs after(TestModel(), before.dir());
  after.loop.Advance(299999);  // the default of timeouts.start_s
  CHECK(after.exits.empty());
  after.loop.Advance(1);
  CHECK(after.exits == std::vector<int>{0});
  TestPs wanted(TestModel(), before.dir());
  wanted.loop.Advance(20000);
  REQUIRE(wanted.Adopt(3).ok());
  wanted.loop.Advance(500000);
  CHECK(wanted.exits.empty());
  // A newer checkpoint that is not complete.
  WriteManifest(before, {.step = 9, .generation = 3, .round = 1}, false);
  TestPs resumed(TestModel(), before.dir());
  resumed.loop.Advance(3000);
  CHECK(resumed.exits.empty());
}

TEST_CASE("a ps stays where the last checkpoint is damaged, or a coordinator comes meanwhile") {
  const bool damaged = GENERATE(true, false), heard = GENERATE(true, false);
  CAPTURE(damaged, heard);
  ExampleJob example;
  example.Commit(2, 1, {.complete = true});
  if (damaged) example.Damage("step-2-g1-r1", PsFileName(1, 2));
  TestPs ps(TestModel(), example.directory.path());
  ps.executor.set_at_once(false);
  ps.loop.Advance(3000);
  REQUIRE(ps.executor.RunOne());
  ps.loop.RunPosted();
  CHECK(ps.exits.empty());
  ps.loop.Advance(297000);
  DescribeRequest look;
  look.set_run_id("another");
  if (heard) CHECK(ps.Call<PsDescription>(method::kDescribe, look).ok());
  REQUIRE(ps.executor.RunOne());
  ps.loop.RunPosted();
  CHECK(ps.exits == (damaged || heard ? std::vector<int>{} : std::vector<int>{0}));
}

TEST_CASE("a ps that no coordinator knows leaves soon after the job is done") {
  ExampleJob example;
  TestPs ps(TestModel(), example.directory.path());
  ps.loop.Advance(60000);
  example.Commit(2, 1, {.complete = true});
  ps.loop.Advance(10000);
  ps.loop.RunPosted();
  CHECK(ps.exits == std::vector<int>{0});
}

TEST_CASE("a ps whose coordinator dies leaves if the job is done, and else waits for the next") {
  const bool complete = GENERATE(true, false), another = GENERATE(true, false);
  CAPTURE(complete, another);
  ExampleJob example;
  TestPs ps(TestModel(), example.directory.path());
  ps.Ready();
  const auto hold = ps.Send(method::kPsHold, HoldOrder(ps));
  example.Commit(2, 1, {.complete = complete});
  ps.loop.Advance(60000);
  CHECK(ps.exits.empty());  // the coordinator's PsHold call is still open
  hold->Cancel();
  const auto next = another ? ps.Send(method::kPsHold, HoldOrder(ps)) : nullptr;
  ps.loop.Advance(2999);
  CHECK(ps.exits.empty());
  ps.loop.Advance(1);
  ps.loop.RunPosted();
  CHECK(ps.exits == (complete && !another ? std::vector<int>{0} : std::vector<int>{}));
}

FinishRequest FinishOrder(TestPs& ps, ExitCode code) {
  FinishRequest request;
  *request.mutable_fence() = ps.MakeFence();
  request.set_coordinator_boot_id("c1");
  request.set_exit_code(static_cast<int>(code));
  return request;
}

// A ps started with --stay.
struct StayingPs : TestPs {
  explicit StayingPs(std::string dir = "")
      : TestPs(TestModel(), std::move(dir), 0, PinnedBytes::kUnlimited, uint64_t{1} << 30, true) {}
};

TEST_CASE("a ps that stays holds nothing after the job's end, and leaves with its code when told") {
  const ExitCode code = GENERATE(ExitCode::kDone, ExitCode::kFailed);
  StayingPs ps;
  CHECK_FALSE(ps.ps->Health().ready);
  ps.Ready();
  CHECK(ps.ps->Health().ready);
  const std::weak_ptr<const PartitionSet> held = ps.ps->content();
  const auto hold = ps.Send(method::kPsHold, HoldOrder(ps));
  REQUIRE(ps.Call<FinishReply>(method::kFinish, FinishOrder(ps, code)).ok());
  CHECK(held.expired());
  CHECK(hold->answered == 1);
  CHECK(ps.ps->Health().ready);
  CHECK(ps.ps->Health().text ==
        absl::StrCat("has no job: the last one ended with ", static_cast<int>(code)));
  ps.loop.Advance(24 * 3600 * 1000);  // the ps waits for a coordinator without end
  CHECK(ps.exits.empty());
  ps.ps->Drain();
  ps.loop.RunPosted();
  CHECK(ps.exits == std::vector<int>{static_cast<int>(code)});
}

TEST_CASE("a ps that stays takes the next coordinator's orders, and misses that one") {
  StayingPs ps;
  ps.Ready();
  REQUIRE(ps.Call<FinishReply>(method::kFinish, FinishOrder(ps, ExitCode::kDone)).ok());
  REQUIRE(ps.Adopt(2, "c2").ok());
  REQUIRE(ps.Load().ok());
  CHECK(ps.ps->Health().text == "holds 4 partitions");
  ps.loop.Advance(600001);
  CHECK(ps.exits == std::vector<int>{202});
}

TEST_CASE("a ps that stays and starts after the job's end waits, and leaves with 0 when told") {
  TestPs before;
  WriteManifest(before, {.step = 9, .generation = 2, .round = 1}, true);
  StayingPs after(before.dir());
  CHECK(after.ps->Health().text == "holds nothing yet");
  after.loop.Advance(3600000);
  CHECK(after.exits.empty());
  CHECK(after.ps->Health().ready);
  after.ps->Drain();
  after.loop.RunPosted();
  CHECK(after.exits == std::vector<int>{0});
}

}  // namespace
}  // namespace paracord
