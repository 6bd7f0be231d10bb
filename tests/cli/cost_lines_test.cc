// The cost lines tell what a batch costs, and what it would cost under another strategy.
#include "cli/cost_lines.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"

namespace paracord {
namespace {

nlohmann::json Way(const char* strategy, const char* consistency, uint64_t ps, double rate,
                   bool runs) {
  return {{"strategy", strategy},
          {"consistency", consistency},
          {"ps", ps},
          {"batches_per_second", rate},
          {"runs", runs}};
}

nlohmann::json Status(double other_rate) {
  nlohmann::json status;
  status["cost"] = {{"measured",
                     {{"batches", 400},
                      {"workers", 2},
                      {"compute_seconds", 0.0121},
                      {"exchange_seconds", 0.004},
                      {"waited_seconds", 0.0005},
                      {"batches_per_second", 118.25}}},
                    {"overlap", false},
                    {"predicted",
                     {Way("multi_worker_mirrored", "sync", 0, other_rate, false),
                      Way("parameter_server", "async", 2, 100, true)}}};
  return status;
}

TEST_CASE("what was measured stands beside what is predicted for each strategy") {
  CHECK(CostLines(nlohmann::json::object()).empty());
  const std::vector<std::string> lines = CostLines(Status(120));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "a batch takes 12.1 ms to compute, 4 ms to exchange and 0.5 ms of waiting for others: "
        "118.2 batches/s of 2 workers");
  CHECK(lines[1] ==
        "predicted batches/s: multi_worker_mirrored (sync) 120; parameter_server (async) 100, "
        "which runs");
  nlohmann::json alone = Status(120);
  alone["cost"]["predicted"].erase(0);
  CHECK(CostLines(alone).size() == 1);
}

TEST_CASE("a strategy that is predicted to be 1.3 times as fast is a warning") {
  CHECK(CostLines(Status(129)).size() == 2);
  const std::vector<std::string> lines = CostLines(Status(140));
  REQUIRE(lines.size() == 3);
  CHECK(lines[2] ==
        "warning: multi_worker_mirrored (sync) is predicted to be 1.4 times as fast as "
        "parameter_server (async)");
  nlohmann::json sync = Status(140);  // which is not advised to become asynchronous
  for (nlohmann::json& way : sync["cost"]["predicted"]) {
    way["consistency"] = way.value("runs", false) ? "sync" : "async";
  }
  CHECK(CostLines(sync).size() == 2);
  nlohmann::json hidden = Status(140);  // overlap hides the time of an exchange
  hidden["cost"]["overlap"] = true;
  CHECK(CostLines(hidden).size() == 2);
}

TEST_CASE("before training the formula has the job's own multiply-adds and bytes") {
  Job job;
  job.batch = 64;
  std::vector<VariableSpec> variables(3);
  variables[0].set_trainable(true);
  for (const uint64_t axis : {1024, 1024}) variables[0].add_shape(axis);
  variables[1].add_shape(4096);  // not trained
  variables[2].set_trainable(true);
  variables[2].add_shape(1'000'000);
  variables[2].mutable_table();  // a batch pushes some rows only
  const std::string ps = StepText(job, variables, 1'250'000, 2);
  INFO(ps);
  CHECK(absl::StrContains(ps, "1.25e+06 multiply-adds x 64 examples / speed"));
  CHECK(absl::StrContains(ps, "2 x 4.0 MiB / bandwidth"));
  CHECK_FALSE(absl::StrContains(ps, "of which"));
  Job copied = job;
  copied.partitioner.copies = 1;
  CHECK(StepText(copied, variables, 1'250'000, 2) == ps);  // a second ps reads checkpoints
  copied.guarantees.consistency = "sync";
  CHECK(absl::StrContains(StepText(copied, variables, 1'250'000, 2),
                          "3 x 4.0 MiB (pushed to both ps of each partition) / bandwidth"));
  job.guarantees.strategy = "multi_worker_mirrored";
  const std::string nodes = StepText(job, variables, 0, 2);
  CHECK(absl::StrContains(nodes, "compute = 64 examples / speed"));
  CHECK(absl::StrContains(nodes, "of which 0.75 counts"));
}

}  // namespace
}  // namespace paracord
