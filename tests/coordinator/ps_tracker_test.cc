#include "coordinator/core/ps_tracker.h"

#include <catch2/catch.hpp>

#include "coordinator/core/limits.h"
#include "coordinator/core/table_status.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

constexpr uint64_t kGeneration = 5;

CoreOptions OptionsOfTwo() {
  CoreOptions options;
  options.ps_addresses = {"unix:/ps-0", "unix:/ps-1"};
  options.boot_id = "c";
  options.dir = "/job";
  return options;
}

// A tracker with two ps. The test answers the calls.
struct TwoPs {
  TwoPs() {
    std::vector<PartitionSpec> layout(2);
    for (uint32_t i = 0; i < 2; ++i) {
      layout[i].set_id(i);
      layout[i].set_ps(i);
    }
    tracker.SetRun("run");
    tracker.SetLayout(layout);
  }

  // Returns the tag of the newest call of ps `index` with a `Request`, or 0.
  template <class Request>
  uint64_t Called(uint32_t index) {
    for (Effect& effect : effects.Take()) emitted.push_back(std::move(effect));
    uint64_t tag = 0;
    for (const Effect& effect : emitted) {
      const auto* call = std::get_if<CallPs>(&effect);
      if (call == nullptr || call->ps != index) continue;
      if (std::holds_alternative<Request>(call->request)) tag = call->tag;
    }
    return tag;
  }
  PsDescription Description(uint32_t index, bool holds = false) const {
    PsDescription description;
    description.set_protocol(kProtocol);
    description.set_boot_id(boot);
    description.set_generation(generation.claimed());
    description.set_coordinator_boot_id("c");
    if (!holds) return description;
    description.set_run_id("run");
    description.add_partitions()->set_id(index);
    return description;
  }
  PsNews::Kind Answer(uint32_t index, uint64_t tag, absl::StatusOr<PsReply> reply,
                      bool formed = false) {
    news = tracker.OnAnswer({index, tag, std::move(reply)}, now, formed);
    return news.kind;
  }
  // Brings a ps from kAway to kReady.
  void Serve(uint32_t index) {
    tracker.Drive(now, false);
    Answer(index, Called<DescribeRequest>(index), PsReply(Description(index)));
    REQUIRE(tracker.all()[index].state == PsState::kSeen);
    tracker.Adopt(index);
    Answer(index, Called<AdoptRequest>(index), PsReply(Description(index)));
    REQUIRE(tracker.all()[index].state == PsState::kAdopted);
    tracker.Load(index, LoadRequest());
    CHECK(Answer(index, Called<LoadRequest>(index), PsReply(Description(index, true))) ==
          PsNews::Kind::kReady);
  }

  int64_t now = 1000;
  std::string boot = "b1";
  const CoreOptions options = OptionsOfTwo();
  Generation generation{kGeneration};
  Effects effects;
  std::vector<Effect> emitted;
  PsNews news;
  PsTracker tracker{options, generation, effects, 0};
};

TEST_CASE("a ps is seen, adopted and loaded, and then it is ready") {
  TwoPs two;
  two.Serve(0);
  CHECK_FALSE(two.tracker.AllAre(PsState::kReady));
  CHECK(two.tracker.Missing().size() == 1);
  CHECK_FALSE(two.tracker.ReadLedgers(two.now));
  two.Serve(1);
  CHECK(two.tracker.AllAre(PsState::kReady));
  CHECK(two.tracker.Missing().empty());
}

TEST_CASE("a ps that came back together with the coordinator counts as replaced") {
  TwoPs two;
  two.tracker.Drive(two.now, false);
  two.Answer(0, two.Called<DescribeRequest>(0), PsReply(two.Description(0, /*holds=*/true)));
  two.Answer(1, two.Called<DescribeRequest>(1), PsReply(two.Description(1)));
  CHECK(two.tracker.recoveries() == 0);
  two.tracker.CountReplaced();
  two.tracker.CountReplaced();  // counted only once
  CHECK(two.tracker.recoveries() == 1);
  TwoPs anew;  // all ps are empty: a new job, or a stopped cluster
  anew.Serve(0);
  anew.Serve(1);
  anew.tracker.CountReplaced();
  CHECK(anew.tracker.recoveries() == 0);
}

TEST_CASE("a ps that drains is held on to, and lost as soon as it says that it leaves") {
  TwoPs two;
  two.Serve(0);
  two.Serve(1);
  two.tracker.Drive(two.now, true);
  const uint64_t first = two.Called<PsHoldRequest>(0);
  PsHoldReply draining;
  draining.set_draining(true);
  CHECK(two.Answer(0, first, PsReply(draining)) == PsNews::Kind::kDraining);
  two.tracker.Drive(two.now, true);
  const uint64_t second = two.Called<PsHoldRequest>(0);
  REQUIRE(second != first);
  CHECK(two.Answer(0, second, absl::UnavailableError("it has left: drained")) ==
        PsNews::Kind::kLost);
  CHECK(two.tracker.all()[0].state == PsState::kAway);
  CHECK(two.tracker.all()[0].problem == "it has left: drained");
}

TEST_CASE("an answer with another tag than the call in flight is late and changes nothing") {
  TwoPs two;
  two.tracker.Drive(two.now, false);
  const uint64_t tag = two.Called<DescribeRequest>(0);
  two.Answer(0, tag + 100, PsReply(two.Description(0)));
  CHECK(two.tracker.all()[0].state == PsState::kAway);
  two.Answer(0, tag, PsReply(two.Description(0)));
  two.Answer(0, tag, absl::UnavailableError("no connection"));
  CHECK(two.tracker.all()[0].state == PsState::kSeen);
}

TEST_CASE("a ps that is reached again in the same life serves on, and a new life is counted") {
  TwoPs two;
  two.Serve(0);
  two.generation.Use();
  two.now += 1000;
  two.tracker.Drive(two.now, true);
  CHECK(two.Answer(0, two.Called<DescribeRequest>(0), absl::UnavailableError("broke")) ==
        PsNews::Kind::kLost);
  CHECK(two.tracker.all()[0].state == PsState::kAway);
  two.tracker.Drive(two.now, true);
  CHECK(two.Answer(0, two.Called<DescribeRequest>(0), PsReply(two.Description(0, true)), true) ==
        PsNews::Kind::kReady);
  CHECK(two.tracker.recoveries() == 0);
  two.now += 1000;
  two.tracker.Drive(two.now, true);
  two.boot = "b2";
  CHECK(two.Answer(0, two.Called<DescribeRequest>(0), PsReply(two.Description(0)), true) ==
        PsNews::Kind::kLost);
  two.tracker.Drive(two.now, true);
  CHECK(two.Answer(0, two.Called<DescribeRequest>(0), PsReply(two.Description(0)), true) ==
        PsNews::Kind::kNone);
  CHECK(two.tracker.all()[0].state == PsState::kSeen);
  CHECK(two.tracker.recoveries() == 1);
}

TEST_CASE("the rates of tables come from ledgers, too, which short epochs read again and again") {
  TwoPs two;
  two.Serve(0);
  two.Serve(1);
  for (int reading = 0; reading <= 40; ++reading, two.now += 100) {
    REQUIRE(two.tracker.ReadLedgers(two.now));
    for (const uint32_t ps : {0u, 1u}) {
      PsDescription description = two.Description(ps, true);
      description.mutable_partitions(0)->mutable_table()->set_pulled(
          static_cast<uint64_t>(reading) * 100);
      two.Answer(ps, two.Called<DescribeRequest>(ps), PsReply(description), true);
    }
  }
  CHECK(two.tracker.all()[0].rates.Of(0).pulled == 1000);
  CHECK(two.tracker.all()[1].rates.Of(1).pulled == 1000);
}

TEST_CASE("hot ids of a table are told as the signed numbers that ids are, the hottest first") {
  TwoPs two;
  two.Serve(0);
  two.Serve(1);
  REQUIRE(two.tracker.ReadLedgers(two.now));
  for (const uint32_t ps : {0u, 1u}) {
    PsDescription description = two.Description(ps, true);
    HotId& hot = *description.mutable_partitions(0)->mutable_table()->add_hot();
    hot.set_id(ps == 0 ? 7 : static_cast<uint64_t>(-12));
    hot.set_share(ps == 0 ? 0.25 : 0.5);
    two.Answer(ps, two.Called<DescribeRequest>(ps), PsReply(description), true);
  }
  VariableSpec table;
  table.set_name("users/embeddings");
  table.mutable_table()->set_kind(TableSpec::GROWING);
  const std::vector<VariableSpec> variables = {table};
  const nlohmann::json hot =
      TablesJson(variables, two.tracker).at("users/embeddings").at("hot_ids");
  CHECK(hot ==
        nlohmann::json::array({{{"id", "-12"}, {"share", 0.5}}, {{"id", "7"}, {"share", 0.25}}}));
}

TEST_CASE("ledgers are read of all ps at once, and one that is lost spoils the reading") {
  TwoPs two;
  two.Serve(0);
  two.Serve(1);
  REQUIRE(two.tracker.ReadLedgers(two.now));
  CHECK_FALSE(two.tracker.ReadLedgers(two.now));
  PsDescription told = two.Description(0, true);
  told.mutable_partitions(0)->mutable_ledger()->set_applied(7);
  CHECK(two.Answer(0, two.Called<DescribeRequest>(0), PsReply(told)) == PsNews::Kind::kNone);
  const uint64_t tag = two.Called<DescribeRequest>(1);
  SECTION("all answer") {
    CHECK(two.Answer(1, tag, PsReply(two.Description(1, true))) == PsNews::Kind::kLedgers);
    CHECK(two.tracker.Ledgers().size() == 1);
    CHECK(two.tracker.NotFinite() == 0);  // partition 0 did not report healthy
    two.tracker.ForgetLedgers();
    CHECK(two.tracker.Ledgers().empty());
  }
  SECTION("one is lost") {
    CHECK(two.Answer(1, tag, absl::UnavailableError("broke")) == PsNews::Kind::kLost);
    CHECK_FALSE(two.tracker.reading());
  }
}

TEST_CASE("a new generation takes all that are there back to be adopted, and drops their calls") {
  TwoPs two;
  two.Serve(0);
  two.tracker.Drive(two.now, false);
  const uint64_t hold = two.Called<PsHoldRequest>(0);
  two.tracker.BeginGeneration();
  CHECK(two.tracker.all()[0].state == PsState::kSeen);
  CHECK(two.tracker.all()[1].state == PsState::kAway);
  CHECK(two.Answer(0, hold, absl::UnavailableError("broke")) == PsNews::Kind::kNone);
  CHECK(two.tracker.Idle(PsState::kSeen, two.now) == std::vector<uint32_t>{0});
}

TEST_CASE("a damaged checkpoint is struck out, and one that cannot be read only after a while") {
  TwoPs two;
  two.tracker.Drive(two.now, false);
  two.Answer(0, two.Called<DescribeRequest>(0), PsReply(two.Description(0)));
  two.tracker.Adopt(0);
  two.Answer(0, two.Called<AdoptRequest>(0), PsReply(two.Description(0)));
  LoadRequest load;
  load.set_checkpoint("step-1");
  const auto fail = [&](const absl::Status& status) {
    two.tracker.Load(0, load);
    return two.Answer(0, two.Called<LoadRequest>(0), status);
  };
  const absl::Status unreadable = absl::PermissionDeniedError("permission denied");
  CHECK(fail(unreadable) == PsNews::Kind::kNone);
  CHECK(two.tracker.Idle(PsState::kAdopted, two.now).empty());
  CHECK(two.tracker.Idle(PsState::kAdopted, two.now + kRepeatMs).size() == 1);
  CHECK(fail(absl::DataLossError("a checksum is wrong")) == PsNews::Kind::kUnreadable);
  CHECK(two.news.checkpoint == "step-1");
  two.now += two.options.job.timeouts.start_s * 1000;
  CHECK(fail(unreadable) == PsNews::Kind::kUnreadable);
}

TEST_CASE("whoever obeys a newer coordinator, or is another task, is not taken for the ps") {
  TwoPs two;
  two.tracker.Drive(two.now, false);
  PsDescription other = two.Description(0);
  other.set_generation(kGeneration + 1);
  const uint64_t tag = two.Called<DescribeRequest>(0);
  SECTION("before the cluster has formed the claims are looked at") {
    CHECK(two.Answer(0, tag, PsReply(other)) == PsNews::Kind::kNone);
    const std::vector<Effect> effects = two.effects.Take();
    REQUIRE(effects.size() == 1);
    CHECK(std::get<FindNewestGeneration>(effects[0]).obeyed == kGeneration + 1);
  }
  SECTION("after that this coordinator is superseded") {
    CHECK(two.Answer(0, tag, PsReply(other), true) == PsNews::Kind::kSuperseded);
  }
  SECTION("another task's ps ends the job before the cluster has formed") {
    other = two.Description(0);
    other.set_ps(1);
    CHECK(two.Answer(0, tag, PsReply(other)) == PsNews::Kind::kHopeless);
    CHECK(two.news.code == ExitCode::kConfiguration);
  }
  CHECK(two.tracker.all()[0].state == PsState::kAway);
}

TEST_CASE("a ps that stays away for too long ends a job that lives") {
  TwoPs two;
  const int64_t return_ms = two.options.job.timeouts.ps_return_s * 1000;
  CHECK_FALSE(two.tracker.Drive(return_ms, true).has_value());
  CHECK_FALSE(two.tracker.Drive(return_ms + 1, false).has_value());
  CHECK(two.tracker.Drive(return_ms + 1, true).has_value());
  two.tracker.Forgive(1000, return_ms + 1);
  CHECK_FALSE(two.tracker.Drive(return_ms + 1, true).has_value());
}

TEST_CASE("after the end every ps is told, those too that were not adopted yet") {
  TwoPs two;
  two.Serve(0);
  const Exit exit{0, "the job is done"};
  two.tracker.Tell(exit, two.now);
  CHECK_FALSE(two.tracker.AllTold(true));
  two.tracker.OnTold({0, two.Called<FinishRequest>(0), PsReply(FinishReply())}, two.now);
  two.tracker.OnTold({1, two.Called<DescribeRequest>(1), PsReply(two.Description(1))}, two.now);
  CHECK(two.tracker.all()[1].state == PsState::kSeen);
  two.tracker.Tell(exit, two.now);
  two.tracker.OnTold({1, two.Called<AdoptRequest>(1), PsReply(two.Description(1))}, two.now);
  two.tracker.Tell(exit, two.now);
  two.tracker.OnTold({1, two.Called<FinishRequest>(1), PsReply(FinishReply())}, two.now);
  CHECK(two.tracker.AllTold(true));
}

}  // namespace
}  // namespace paracord
