#include "coordinator/job_state.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace paracord {
namespace {

JobState Example() {
  JobState state;
  state.run_id = "0123456789abcdef0123456789abcdef";
  state.job_json = R"({"name": "a \"quoted\" name"})";
  state.plan.set_records(60000);
  state.plan.set_batch(64);
  state.plan.set_split_batches(32);
  state.plan.set_fingerprint("f");
  VariableSpec variable;
  variable.set_name("dense/kernel");
  variable.add_shape(784);
  variable.add_shape(256);
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
  state.counters.first_step_ms = 12;
  return state;
}

TEST_CASE("job.state comes back as it was written") {
  const JobState state = Example();
  const auto again = ParseJobState(JobStateToText(state), "/d/job.state");
  REQUIRE(again.ok());
  CHECK(again->run_id == state.run_id);
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
  CHECK(JobStateToText(*again) == JobStateToText(state));
}

TEST_CASE("a damaged job.state is an error that names the file, wherever it is cut") {
  const std::string text = JobStateToText(Example());
  for (size_t cut = 0; cut + 2 < text.size(); cut += 7) {
    const auto state = ParseJobState(text.substr(0, cut), "/d/job.state");
    REQUIRE_FALSE(state.ok());
    CHECK(std::string(state.status().message()).find("/d/job.state") != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
