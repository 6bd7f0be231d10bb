// Prometheus gets the figures of `paracord status`.
#include "coordinator/status_metrics.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/json_text.h"
#include "coordinator/core_harness.h"

namespace paracord {
namespace {

std::string TextFor(const nlohmann::json& status) {
  MetricSet metrics;
  AddStatusMetrics(status, 1'700'000'100'000, metrics);
  return metrics.Text();
}

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("the metrics of a job are those of its status") {
  CoreHarness harness;
  const uint64_t session = harness.Join("worker:0");
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  harness.Run(100);
  const std::string text = TextFor(JsonOf(harness.Told().StatusJson()));
  INFO(text);
  CHECK(Has(text, "paracord_job_phase{phase=\"training\"} 1"));
  CHECK(Has(text, "paracord_job_phase{phase=\"ended\"} 0"));
  CHECK(Has(text, "paracord_job_workers 1"));
  CHECK(Has(text, "paracord_job_leases 1"));
  CHECK(Has(text, "paracord_job_ps{state=\"ready\"} 2"));
  CHECK(Has(text, "paracord_job_ps{state=\"away\"} 0"));
  CHECK(Has(text, "paracord_peer_up{peer=\"ps:1\"} 1"));
  CHECK(Has(text, "paracord_peer_up{peer=\"worker:0\"} 1"));
  CHECK(Has(text, "paracord_job_recoveries_total{of=\"ps\"} 0"));
  CHECK(Has(text, "paracord_job_waiting 0"));
  CHECK(Has(text, "paracord_job_healthy 1"));
}

TEST_CASE("records that were left out are counted, each time") {
  nlohmann::json status = {{"phase", "training"}};
  CHECK(Has(TextFor(status), "paracord_bad_records_total 0"));
  status["bad_records"] = {{"records", 3}, {"left_out", 12}, {"first", nlohmann::json::array()}};
  CHECK(Has(TextFor(status), "paracord_bad_records_total 12"));
}

TEST_CASE("the rounds of a job are told where it has any") {
  nlohmann::json status = {{"phase", "training"}};
  CHECK(TextFor(status).find("paracord_round") == std::string::npos);
  status["rounds"] = {
      {"round", 812}, {"rounds", 9000}, {"rollbacks", 2}, {"backups", 5}, {"waited_seconds", 1.5}};
  status["workers"] = {{{"task", "worker:0"}, {"waited_share", 0.25}}, {{"task", "worker:1"}}};
  std::string text = TextFor(status);
  INFO(text);
  CHECK(Has(text, "paracord_round 812"));
  CHECK(Has(text, "paracord_round_waiting 0"));
  CHECK(Has(text, "paracord_rollbacks_total 2"));
  CHECK(Has(text, "paracord_backup_lanes_total 5"));
  CHECK(Has(text, "paracord_round_waited_seconds_total 1.5"));
  CHECK(Has(text, "paracord_peer_waited_share{peer=\"worker:0\"} 0.25"));
  CHECK(text.find("paracord_peer_waited_share{peer=\"worker:1\"}") == std::string::npos);
  CHECK(text.find("paracord_round_seconds") == std::string::npos);
  status["rounds"]["waits_for"] = "worker:1";
  status["rounds"]["seconds_a_round"] = 0.02;
  text = TextFor(status);
  CHECK(Has(text, "paracord_round_waiting 1"));
  CHECK(Has(text, "paracord_round_seconds 0.02"));
}

TEST_CASE("a checkpoint has an age, a size and a duration, and what is not known is left out") {
  nlohmann::json status = {{"phase", "training"}, {"checkpoint", {{"last", nullptr}}}};
  std::string text = TextFor(status);
  CHECK(text.find("paracord_checkpoint_age_seconds") == std::string::npos);
  CHECK(text.find("paracord_job_loss") == std::string::npos);
  status["loss"] = 0.25;
  status["checkpoint"] = {{"last", "step-4-g1-r1"}, {"created_unix_ms", 1'700'000'040'000},
                          {"bytes", 4096},          {"seconds", 1.5},
                          {"every_seconds", 30},    {"problem", "full"}};
  text = TextFor(status);
  INFO(text);
  CHECK(Has(text, "paracord_checkpoint_age_seconds 60"));
  CHECK(Has(text, "paracord_checkpoint_bytes 4096"));
  CHECK(Has(text, "paracord_checkpoint_duration_seconds 1.5"));
  CHECK(Has(text, "paracord_checkpoint_failing 1"));
  CHECK(Has(text, "paracord_job_loss 0.25"));
}

TEST_CASE("the metrics of copies and moves are those of the status, and 0 of a job without") {
  std::string text = TextFor({{"phase", "training"}, {"copies", nullptr}, {"move", nullptr}});
  CHECK(Has(text, "paracord_copies_partitions 0"));
  CHECK(Has(text, "paracord_copies_alone_partitions 0"));
  CHECK(Has(text, "paracord_move_under_way 0"));
  CHECK(Has(text, "paracord_move_given_up 0"));
  CHECK(text.find("paracord_move_seconds") == std::string::npos);

  // A job with copies whose second ps has not prepared a checkpoint yet.
  CoreHarness harness([](Job& job) {
    job.partitioner.copies = 1;
    job.checkpoint.every_seconds = 0.5;
  });
  const uint64_t session = harness.Join("worker:0");
  const WorkReply reply = harness.Work(session);
  REQUIRE(reply.has_lease());
  harness.Run(100);
  text = TextFor(JsonOf(harness.Told().StatusJson()));
  CHECK(Has(text, "paracord_copies_partitions 4"));
  CHECK(Has(text, "paracord_copies_alone_partitions 4"));
  CHECK(Has(text, "paracord_copies_alone_bytes 800000"));
  CHECK(Has(text, "paracord_copies_promotions_total 0"));
  harness.Enter(reply.lease());
  harness.Work(session, {CoreHarness::Done(reply.lease())}, false);
  harness.Run(7000);
  text = TextFor(JsonOf(harness.Told().StatusJson()));
  INFO(text);
  CHECK(Has(text, "paracord_copies_alone_partitions 0"));
  CHECK(Has(text, "paracord_copies_alone_bytes 0"));
}

TEST_CASE("a move is told while it is under way, and when it has ended") {
  CoreHarness harness;
  const WorkReply reply = harness.Work(harness.Join("worker:0"));
  REQUIRE(reply.has_lease());
  harness.hold_state = true;
  ScaleRequest request;
  request.set_ps(1);
  harness.Feed(ScaleEvent{++harness.call, request});
  harness.Run(3000);
  std::string text = TextFor(JsonOf(harness.Told().StatusJson()));
  CHECK(Has(text, "paracord_move_under_way 1"));
  INFO(text);
  CHECK(Has(text, "paracord_move_stopped_seconds 3"));
  harness.hold_state = false;
  harness.Feed(JobStateWrittenEvent{absl::OkStatus()});
  harness.Run(500);
  text = TextFor(JsonOf(harness.Told().StatusJson()));
  CHECK(Has(text, "paracord_move_under_way 0"));
  CHECK(Has(text, "paracord_move_given_up 0"));
  nlohmann::json status = JsonOf(harness.Told().StatusJson());
  REQUIRE(status.at("move").at("phase") == "done");
  status["move"]["phase"] = "given up";
  CHECK(Has(TextFor(status), "paracord_move_under_way 0"));
  CHECK(Has(TextFor(status), "paracord_move_given_up 1"));
}

TEST_CASE("thousands of workers do not become thousands of metrics") {
  nlohmann::json status = {{"workers", nlohmann::json::array()}};
  for (int i = 0; i < 1000; ++i) {
    status["workers"].push_back({{"task", "worker:" + std::to_string(i)}, {"leases", 1}});
  }
  const std::string text = TextFor(status);
  CHECK(Has(text, "paracord_job_workers 1000"));
  CHECK(Has(text, "paracord_job_leases 1000"));
  CHECK(text.find("\"worker:255\"") != std::string::npos);
  CHECK(text.find("\"worker:256\"") == std::string::npos);
}

TEST_CASE("the newest evaluation is told, whatever its metrics are called") {
  const std::string text =
      TextFor({{"evaluations",
                {{{"epoch", 1}, {"metrics", {{"accuracy", 0.5}}}},
                 {{"epoch", 2}, {"metrics", {{"accuracy", 0.75}, {"loss", nullptr}}}}}}});
  CHECK(Has(text, "paracord_job_test_metric{metric=\"accuracy\"} 0.75"));
  CHECK(text.find("metric=\"loss\"") == std::string::npos);
}

TEST_CASE("a status that is no object, or of another shape, ends nothing") {
  CHECK(TextFor(nullptr).empty());
  CHECK_FALSE(TextFor({{"phase", "training"}}).empty());
}

}  // namespace
}  // namespace paracord
