#include "coordinator/core/job_state.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

namespace paracord {
namespace {

JobState Example() {
  JobState state;
  state.run_id = "0123456789abcdef0123456789abcdef";
  state.replaced_run_id = "fedcba9876543210fedcba9876543210";
  state.job_json = R"({"name": "a \"quoted\" name"})";
  state.plan.set_records(60000);
  state.plan.set_batch(64);
  state.plan.set_split_batches(32);
  state.plan.set_fingerprint("f");
  VariableSpec variable;
  variable.set_name("dense/kernel");
  variable.add_shape(784);
  variable.add_shape(256);
  variable.set_dtype(FLOAT32);
  variable.set_trainable(true);
  (*variable.mutable_initializer()->mutable_options())["stddev"] = 0.1;
  state.variables.push_back(variable);
  PartitionSpec partition;
  partition.set_name("dense/kernel/part_0");
  partition.set_row_end(784);
  state.partitions.push_back(partition);
  state.metric_names = {"loss", "accuracy"};
  state.evaluations.push_back(
      {0, {{"accuracy", 0.1 + 0.2}, {"loss", std::numeric_limits<double>::quiet_NaN()}}});
  state.stop = StopDecision{1, "stop_when"};
  state.rejected = {{0, 3, 7, true}, {2, 0, 1, false}};
  state.counters.computed = 938;
  state.counters.rollbacks = 3;
  state.counters.backups = 7;
  state.counters.waited_ms = 9000;
  state.counters.first_step_ms = 12;
  return state;
}

TEST_CASE("a state with a plan that is larger than any job is damaged") {
  JobState state = Example();
  state.plan.set_records(uint64_t{1} << 50);
  const absl::StatusOr<JobState> read = ParseJobState(JobStateToText(state), "job.state");
  CHECK(absl::IsDataLoss(read.status()));
  CHECK(std::string(read.status().message()).find("job.state: damaged: data plan: ") == 0);
}

TEST_CASE("job.state comes back as it was written") {
  const JobState state = Example();
  const auto again = ParseJobState(JobStateToText(state), "/d/job.state");
  REQUIRE(again.ok());
  CHECK(again->run_id == state.run_id);
  CHECK(again->replaced_run_id == state.replaced_run_id);
  CHECK(again->job_json == state.job_json);
  CHECK(again->plan.SerializeAsString() == state.plan.SerializeAsString());
  CHECK(again->variables[0].SerializeAsString() == state.variables[0].SerializeAsString());
  CHECK(again->partitions[0].SerializeAsString() == state.partitions[0].SerializeAsString());
  CHECK(again->evaluations[0].metrics.at("accuracy") == 0.1 + 0.2);
  CHECK(std::isnan(again->evaluations[0].metrics.at("loss")));
  CHECK(again->stop->reason == "stop_when");
  REQUIRE(again->rejected.size() == 2);
  CHECK(again->rejected[0].nonfinite);
  CHECK(again->rejected[1].epoch == 2);
  CHECK(again->counters.computed == 938);
  CHECK(again->counters.rollbacks == 3);
  CHECK(again->counters.backups == 7);
  CHECK(again->counters.waited_ms == 9000);
  CHECK(JobStateToText(*again) == JobStateToText(state));
}

TEST_CASE("a job.state of a job with lanes is of a format of its own") {
  JobState state = Example();
  CHECK(JobStateToText(state).find("\"format\": 2") != std::string::npos);
  state.plan.set_lanes(4);
  state.plan.set_split_batches(235);
  const std::string text = JobStateToText(state);
  CHECK(text.find("\"format\": 3") != std::string::npos);
  const auto again = ParseJobState(text, "/d/job.state");
  REQUIRE(again.ok());
  CHECK(again->plan.lanes() == 4);
  CHECK(JobStateToText(*again) == text);
}

TEST_CASE("a job.state says which ps are the second holders of partitions") {
  JobState state = Example();
  Layout& layout = state.layout.emplace();
  layout.given = layout.ps = {"a:1", "b:1"};
  layout.holders.assign(state.partitions.size(), 0);
  CHECK(JobStateToText(state).find("seconds") == std::string::npos);
  for (const uint32_t second : {1u, kNobody}) {
    layout.seconds.assign(state.partitions.size(), second);
    const auto again = ParseJobState(JobStateToText(state), "/d/job.state");
    REQUIRE(again.ok());
    CHECK(again->layout == state.layout);
  }
  layout.seconds.assign(state.partitions.size(), 2);
  CHECK(absl::IsDataLoss(ParseJobState(JobStateToText(state), "/d/job.state").status()));
  layout.seconds.assign(state.partitions.size() + 1, 1);
  CHECK(absl::IsDataLoss(ParseJobState(JobStateToText(state), "/d/job.state").status()));
}

TEST_CASE("no truncation and no changed byte of a job.state goes unnoticed") {
  const std::string text = JobStateToText(Example());
  for (size_t at = 0; at < text.size(); ++at) {
    const auto torn = ParseJobState(text.substr(0, at), "/d/job.state");
    REQUIRE(absl::IsDataLoss(torn.status()));
    CHECK(std::string(torn.status().message()).find("/d/job.state") != std::string::npos);
    std::string edited = text;
    edited[at] = edited[at] == '1' ? '2' : '1';
    REQUIRE_FALSE(ParseJobState(edited, "/d/job.state").ok());
  }
}

TEST_CASE("a job.state of a plan or layout that cannot be is refused by name") {
  const std::vector<std::pair<std::string, std::function<void(JobState&)>>> cases = {
      {"batch is 0", [](JobState& state) { state.plan.set_batch(0); }},
      {"records is 0", [](JobState& state) { state.plan.set_records(0); }},
      {"dimension of 0", [](JobState& state) { state.variables[0].set_shape(0, 0); }},
      {"has rows", [](JobState& state) { state.partitions[0].set_row_end(785); }},
      {"no known variable", [](JobState& state) { state.partitions[0].set_variable(1); }}};
  for (const auto& [what, change] : cases) {
    JobState state = Example();
    change(state);
    const auto parsed = ParseJobState(JobStateToText(state), "/d/job.state");
    CAPTURE(what);
    REQUIRE(absl::IsDataLoss(parsed.status()));
    CHECK(std::string(parsed.status().message()).find(what) != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
