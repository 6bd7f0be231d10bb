// The status tells which strategy trains a job, what a batch costs, and what it would cost under
// another strategy.
#include "coordinator/core/cost_status.h"

#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

// A worker computes `batches` more batches, 20 ms each, with 10 ms between them that no computation
// hides.
void Compute(CoreHarness& harness, uint64_t session, uint64_t batches) {
  WorkRequest request;
  request.set_session(session);
  request.set_want_task(true);
  for (uint64_t done = 0; done < batches;) {
    harness.Feed(WorkEvent{++harness.call, request});
    for (int i = 0; i < 50 && !harness.works[harness.call].has_lease(); ++i) harness.Run(50);
    const WorkReply reply = harness.works[harness.call];
    REQUIRE(reply.has_lease());
    const uint64_t count = reply.lease().end_batch() - reply.lease().first_batch();
    harness.Run(static_cast<int64_t>(30 * count));
    harness.Enter(reply.lease());
    request.clear_leases();
    *request.add_leases() = CoreHarness::Done(reply.lease());
    request.set_computed(count);
    request.set_compute_seconds(0.02 * static_cast<double>(count));
    request.set_samples(10 * count);
    done += count;
  }
  request.set_want_task(false);
  harness.Feed(WorkEvent{++harness.call, request});
}

TEST_CASE("what batches cost is told once 50 were measured, in the status and in the summary") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0", /*records=*/10'000);
  REQUIRE(session != 0);
  CHECK(CostJson(harness.core->View()).is_null());
  Compute(harness, session, 20);
  CHECK(CostJson(harness.core->View()).is_null());
  Compute(harness, session, 80);
  const nlohmann::json cost = JsonOf(harness.Told().StatusJson()).at("cost");
  INFO(cost.dump(2));
  const nlohmann::json& measured = cost.at("measured");
  CHECK(measured.at("batches") >= 50);
  CHECK(measured.at("compute_seconds").get<double>() == Approx(0.02));
  const double exchange = measured.at("exchange_seconds").get<double>();
  CHECK(exchange >= 0.01);  // plus the waits for leases
  CHECK(measured.at("batches_per_second").get<double>() == Approx(1 / (0.02 + exchange)));
  const nlohmann::json& predicted = cost.at("predicted");
  REQUIRE(predicted.size() == 3);
  CHECK(predicted[0].at("strategy") == "one_device");  // its exchange stays in the process
  CHECK(predicted[0].at("runs") == false);
  size_t run = 0;
  for (const nlohmann::json& way : predicted) {
    if (!way.at("runs").get<bool>()) continue;
    ++run;
    CHECK(way.at("strategy") == "parameter_server");
    CHECK(way.at("consistency") == "async");
    CHECK(way.at("batches_per_second").get<double>() ==
          Approx(measured.at("batches_per_second").get<double>()));
  }
  CHECK(run == 1);
  const nlohmann::json summary = JsonOf(harness.Told().SummaryText("done", "it is"));
  CHECK(summary.at("cost") == cost);
  CHECK(summary.at("strategy").at("name") == "parameter_server");
}

TEST_CASE("the status names the strategy and why it is that") {
  CoreHarness harness;
  const nlohmann::json strategy = JsonOf(harness.Told().StatusJson()).at("strategy");
  CHECK(strategy.at("name") == "parameter_server");
  CHECK(strategy.at("why") == "the cluster names 2 ps (key cluster.ps)");
}

}  // namespace
}  // namespace paracord
