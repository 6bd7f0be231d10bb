#include "coordinator/core/report.h"

#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

TEST_CASE("the last word of a coordinator that is no longer the newest is not written") {
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0") != 0);
  harness.hold_summary = true;
  harness.round_status = absl::UnavailableError("no storage");
  harness.Feed(DrainEvent{});
  harness.Run(26000);
  CHECK(JsonOf(harness.summary).at("status") == "stopped");
  harness.Feed(SummaryWrittenEvent{absl::AbortedError("another leads")});
  harness.Run(100);
  REQUIRE(harness.exit.has_value());
  CHECK(harness.exit->code == 201);
}

TEST_CASE("the summary of a job that is stopped says what had kept it from training") {
  const std::string cause = GENERATE("nothing", "a worker that cannot", "a ps");
  CAPTURE(cause);
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(session != 0);
  WorkRequest leaving;
  leaving.set_session(session);
  leaving.set_leaving(true);
  harness.Feed(WorkEvent{++harness.call, leaving});
  if (cause == "a worker that cannot") {
    JoinRequest request;
    request.set_task("worker:0");
    request.set_boot_id("another life");
    request.set_protocol(kProtocol);
    request.set_error("train-y.npy: no such file");
    harness.Feed(JoinEvent{++harness.call, request});
  }
  if (cause == "a ps") {
    harness.dead.insert(1);
    harness.Run(5000);
  }
  harness.Feed(DrainEvent{"SIGTERM"});
  harness.Run(30000);
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("status") == "stopped");
  CHECK(summary.at("reason").get<std::string>().starts_with("SIGTERM"));
  if (cause == "nothing") {
    CHECK_FALSE(summary.contains("waiting"));
  } else {
    const std::string waiting = summary.at("waiting");
    CHECK(waiting.find(cause == "a ps" ? "ps:1" : "train-y.npy: no such file") != waiting.npos);
  }
}

TEST_CASE("a report whose answer was lost is counted once") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const auto report = [&](uint64_t number) {
    WorkRequest request;
    request.set_session(session);
    request.set_report(number);
    request.set_computed(10);
    harness.Feed(WorkEvent{++harness.call, request});
  };
  for (const uint64_t number : {1, 2, 2, 1, 3}) report(number);
  harness.Feed(DrainEvent{});
  harness.Run(1000);
  CHECK(JsonOf(harness.summary).at("computed") == 30);
}

TEST_CASE("what is applied was computed, also where nobody has told") {
  CoreHarness harness;
  const WorkReply reply = harness.Work(harness.Join("worker:0"));
  harness.Enter(reply.lease());
  harness.Feed(DrainEvent{});
  harness.Run(1000);
  const nlohmann::json summary = JsonOf(harness.summary);
  CHECK(summary.at("ledger").at("applied_max") == 2);
  CHECK(summary.at("computed") == 2);
}

TEST_CASE("status says who holds what of a ps's memory, where it tells") {
  CoreHarness harness;
  MemoryHeld& held = *harness.ps[0].add_memory();
  held.set_holder("requests");
  held.set_bytes(5);
  held.set_bytes_max(7);
  harness.ps[0].set_memory_limit(1 << 30);
  REQUIRE(harness.Join("worker:0") != 0);
  harness.Run(3000);
  const nlohmann::json ps = JsonOf(harness.Told().StatusJson()).at("ps");
  CHECK(ps[0].at("memory").at("requests") == nlohmann::json{{"bytes", 5}, {"bytes_max", 7}});
  CHECK(ps[0].at("memory_limit") == 1 << 30);
  CHECK_FALSE(ps[1].contains("memory"));
  CHECK_FALSE(ps[1].contains("memory_limit"));
}

TEST_CASE("status says at once who waits for whom") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(harness.Work(session).has_lease());
  const auto status = [&] { return JsonOf(harness.Told().StatusJson()); };
  harness.Run(3000);
  CHECK_FALSE(status().contains("waiting"));
  CHECK(status().at("ps")[1].at("silent_seconds") < 1.5);
  harness.hung.insert(1);
  harness.Run(3500);
  CHECK(status().at("ps")[1].at("silent_seconds") > 2);
  CHECK(status().at("waiting").get<std::string>().starts_with("ps:1 at unix:/ps-1 has not answer"));
  CHECK(harness.log.find("training waits: ps:1") != std::string::npos);
}

TEST_CASE("status says which ps a worker cannot reach, though it answers the coordinator") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(harness.Work(session).has_lease());
  const auto status = [&] { return JsonOf(harness.Told().StatusJson()); };
  WorkRequest beat;
  beat.set_session(session);
  beat.set_waits_for("ps:0 for 4 s (connection refused)");
  harness.Feed(WorkEvent{++harness.call, beat});
  CHECK(status().at("waiting") == "worker:0 waits for ps:0 for 4 s (connection refused)");
  CHECK(status().at("workers")[0].at("waits_for") == "ps:0 for 4 s (connection refused)");
}

TEST_CASE("status says how a job has ended, and the largest partitions are told by ps") {
  CoreHarness harness;
  REQUIRE(harness.Join("worker:0") != 0);
  CHECK_FALSE(JsonOf(harness.Told().StatusJson()).contains("exit"));
  const auto largest = LargestPartitions(harness.core->View(), 1);
  REQUIRE(largest.size() == 2);
  for (const auto& of_ps : largest) CHECK(of_ps.size() <= 1);
  const auto all = LargestPartitions(harness.core->View(), 1000);
  for (size_t i = 0; i < all.size(); ++i) {
    for (const PartitionSize& partition : all[i]) {
      CHECK(partition.bytes <= largest[i].front().bytes);
      CHECK_FALSE(partition.name.empty());
    }
  }
  harness.Feed(DrainEvent{"SIGTERM"});
  harness.Run(1000);
  const nlohmann::json status = JsonOf(harness.Told().StatusJson());
  REQUIRE(status.contains("exit"));
  CHECK(status.at("exit").at("code") == 143);
  CHECK(status.at("exit").at("reason").get<std::string>().starts_with("SIGTERM"));
  CHECK(status.at("checkpoint").contains("seconds"));
  CHECK(status.at("checkpoint").contains("bytes"));
}

TEST_CASE("the time that is left follows from the batches to come and the present rate") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  REQUIRE(harness.Work(session).has_lease());
  const auto status = [&] { return JsonOf(harness.Told().StatusJson()); };
  harness.Run(4000);
  CHECK_FALSE(status().contains("seconds_left"));  // without a rate
  WorkRequest report;
  report.set_session(session);
  report.set_report(1);
  report.set_computed(1);
  report.set_samples(2);
  harness.Feed(WorkEvent{++harness.call, report});
  const double left = status().at("seconds_left");
  const double rate = status().at("samples_per_second");
  CHECK(left > 0);
  CHECK(left * rate <= 1000);
}

}  // namespace
}  // namespace paracord
