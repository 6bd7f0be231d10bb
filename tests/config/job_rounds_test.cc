#include "config/job_rounds.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "config/strategy.h"
#include "tests/batches.h"

namespace paracord {
namespace {

// Returns a job of the mandatory keys and `keys`, or all problems.
absl::StatusOr<Job> JobWith(const std::string& keys) {
  nlohmann::json document = JsonOf(R"({
    "name": "j", "model": {"class_name": "Sequential", "config": {"layers": []}},
    "data": {"train": {"format": "idx", "features": "/d/x", "labels": "/d/y"}},
    "loss": "mse", "optimizer": "sgd"})");
  document.update(JsonOf(keys));
  return ParseJob(TextOf(document));
}

std::string RoundsProblemOf(const std::string& keys) {
  return std::string(JobWith(keys).status().message());
}

TEST_CASE("copies of asynchronous jobs need checkpoints, and copies may change on resume") {
  const Job none = JobWith(R"({"copies": 0})").value();
  CHECK_FALSE(JsonOf(JobToJson(none)).contains("copies"));
  const Job copied = JobWith(R"({"copies": 1, "consistency": {"staleness": 1}})").value();
  CHECK(copied.partitioner.copies == 1);
  CHECK(ParseJob(JobToJson(copied)).value().partitioner.copies == 1);
  CHECK(RoundsProblemOf(R"({"copies": 2})").find("copies: ") == 0);
  const Job hot = JobWith(R"({"copies": 1, "consistency": "sync", "round_batches": 2,
                              "checkpoint": {"every_seconds": 0}})")
                      .value();
  CHECK(hot.partitioner.copies == 1);
  CHECK_THAT(RoundsProblemOf(R"({"copies": 1, "checkpoint": {"every_seconds": 0}})"),
             Catch::Contains("copies: are read from checkpoints"));
  const Job before = JobWith("{}").value();
  CHECK(CheckResumable(before, JobWith(R"({"copies": 1})").value(), DataPlan()).ok());
}

TEST_CASE("a job says how old values may be, and how many batches a round has") {
  const Job async = JobWith("{}").value();
  CHECK_FALSE(async.guarantees.staleness.has_value());
  CHECK(RoundBatchesOf(async, 3).value() == 0);
  CHECK_FALSE(JsonOf(JobToJson(async)).contains("round_batches"));
  CHECK(JsonOf(JobToJson(async)).at("consistency") == "async");

  const Job named = JobWith(R"({"consistency": {"staleness": 0}})").value();
  CHECK(named.guarantees.staleness == 0u);
  CHECK(RoundBatchesOf(named, 3).value() == 3);
  CHECK(RoundBatchesOf(named, 256).value() == 256);
  CHECK(RoundBatchesOf(named, 257).status().message() ==
        "round_batches: is missing, and the workers that the cluster (key cluster.worker) names "
        "have 257 devices, more than a round has batches, 256: give it");
  CHECK(RoundBatchesOf(named, 0).status().message() ==
        "round_batches: is missing, and the cluster (key cluster.worker) names no worker, by "
        "whose devices it is chosen otherwise: give it");

  const Job said = JobWith(R"({"consistency": {"staleness": 2}, "round_batches": 8})").value();
  CHECK(RoundBatchesOf(said, 0).value() == 8);
  const std::string text = JobToJson(said);
  CHECK(JsonOf(text).at("consistency").at("staleness") == 2);
  CHECK(JsonOf(text).at("round_batches") == 8);
  CHECK(JobToJson(ParseJob(text).value()) == text);
  CHECK(JobWith(R"({"round_batches": null, "split_batches": 4})").ok());

  const Job sync = JobWith(R"({"consistency": "sync", "threads": 1})").value();
  CHECK(sync.guarantees.sync());
  CHECK(sync.guarantees.rounds());
  CHECK(sync.guarantees.recovery == "rollback");
  CHECK(sync.guarantees.threads == 1u);
  CHECK(RoundBatchesOf(sync, 4).value() == 4);
  CHECK_FALSE(sync.guarantees.backup_factor.has_value());
  const Job backup = JobWith(R"({"consistency": "sync", "backup": {}})").value();
  CHECK(backup.guarantees.backup_factor == 2.0);
  CHECK(JobToJson(ParseJob(JobToJson(backup)).value()) == JobToJson(backup));
  CHECK(JobToJson(ParseJob(JobToJson(sync)).value()) == JobToJson(sync));
  CHECK(JsonOf(JobToJson(sync)).at("consistency") == "sync");
}

TEST_CASE("strategies of several devices or workers without ps make a job synchronous") {
  for (const char* strategy : {"central_storage", "mirrored", "multi_worker_mirrored"}) {
    CAPTURE(strategy);
    const std::string key = absl::StrCat(R"("strategy": ")", strategy, "\"");
    const Job job = JobWith(absl::StrCat("{", key, "}")).value();
    CHECK(job.guarantees.strategy == strategy);
    CHECK(job.guarantees.sync());
    CHECK(job.guarantees.recovery == "rollback");
    CHECK(JobToJson(ParseJob(JobToJson(job)).value()) == JobToJson(job));
    CHECK(JobWith(absl::StrCat("{", key, R"(, "consistency": "sync"})")).ok());
    for (const char* other : {R"("async")", R"({"staleness": 1})"}) {
      CHECK(RoundsProblemOf(absl::StrCat("{", key, R"(, "consistency": )", other, "}")) ==
            absl::StrCat("consistency: is not \"sync\", and `strategy` \"", strategy,
                         "\" is synchronous: leave consistency out, or give another strategy"));
    }
    CHECK(RoundsProblemOf(absl::StrCat("{", key, R"(, "overlap": true})")).find("overlap: ") == 0);
  }
  CHECK_FALSE(JobWith(R"({"strategy": "one_device"})")->guarantees.rounds());
  CHECK_FALSE(JsonOf(JobToJson(*JobWith("{}"))).contains("strategy"));
  CHECK(RoundsProblemOf(R"({"strategy": "miror"})").find("strategy: is \"miror\"") == 0);
}

TEST_CASE("keys of rounds wait for the cluster where it decides whether there are rounds") {
  const Job open = JobWith(R"({"round_batches": 4, "backup": {}})").value();
  CHECK(WaitsForStrategy(open.guarantees));
  CHECK(SettingsOf(open.guarantees, "multi_worker_mirrored") ==
        std::vector<std::string>{"strategy=multi_worker_mirrored"});
  CHECK(SettingsOf(open.guarantees, "parameter_server") ==
        std::vector<std::string>{"consistency=async"});
  CHECK(SettingsOf(JobWith("{}")->guarantees, "parameter_server").empty());
  // A cluster without ps does not suit the strategy, whatever the other keys are.
  const Job of_ps = JobWith(R"({"strategy": "parameter_server", "round_batches": 4})").value();
  CHECK(ChooseStrategy(of_ps.guarantees, {.workers = 1, .by_flags = true}).status().message() ==
        "strategy: is parameter_server, which needs ps, and --ps is 0: add them, or give "
        "\"multi_worker_mirrored\", with which workers hold the variables");
  CHECK(SettingsOf(of_ps.guarantees, "parameter_server") ==
        std::vector<std::string>{"consistency=async"});
}

TEST_CASE("a synchronous job may go on under another strategy") {
  const DataPlan plan = PlanOfLanes(1000, 10, 4);
  const Job ps = JobWith(R"({"consistency": "sync", "round_batches": 4})").value();
  const Job mirrored = JobWith(R"({"strategy": "mirrored", "round_batches": 4})").value();
  CHECK(CheckResumable(ps, mirrored, plan).ToString() == "OK");
  CHECK(CheckResumable(mirrored, ps, plan).ToString() == "OK");
  const Job async = JobWith("{}").value();
  CHECK(CheckResumable(mirrored, async, plan).message().find("consistency: was \"sync\"") == 0);
}

TEST_CASE("keys of rounds that do not fit are named, both where two do not fit each other") {
  const struct {
    const char* keys;
    const char* problem;
  } cases[] = {
      {R"({"consistency": "synch"})",
       "consistency: must be \"async\", \"sync\" or {\"staleness\": S}, is \"synch\""},
      {R"({"consistency": 3})",
       "consistency: must be \"async\", \"sync\" or {\"staleness\": S}, is 3"},
      {R"({"recovery": "rollback"})", "recovery: is \"rollback\", but there is only: replay"},
      {R"({"consistency": "sync", "recovery": "replay"})",
       "recovery: is \"replay\", but there is only: rollback"},
      {R"({"consistency": "sync", "overlap": true})",
       "overlap: computes on values of one round less, and `consistency` \"sync\" allows none"},
      {R"({"consistency": "sync", "compression": {"kind": "int8"}})",
       "compression: keeps a remainder of each gradient"},
      {R"({"consistency": "sync", "split_batches": 4})",
       "split_batches: does not go with `consistency` \"sync\", which cuts epochs into rounds of "
       "`round_batches` batches: leave split_batches out (--set split_batches=null), or give "
       "`consistency` \"async\""},
      {R"({"strategy": "mirrored", "split_batches": 4})",
       "split_batches: does not go with `strategy` \"mirrored\", which cuts epochs into rounds of "
       "`round_batches` batches: leave split_batches out (--set split_batches=null), or give "
       "another strategy"},
      {R"({"consistency": {"staleness": 1}, "backup": {}})",
       "backup: has lanes computed twice that a round waits for, and only `consistency` \"sync\""},
      {R"({"consistency": "async", "reduce": "fast"})",
       "reduce: says how the lanes of a round are added up, and only"},
      {R"({"consistency": "sync", "reduce": "quick"})", "reduce: is \"quick\", but there"},
      {R"({"consistency": {"staleness": 1}, "cross_device_ops": "hierarchical_copy"})",
       "cross_device_ops: says how the devices of a worker add up the lanes of a round, and only"},
      {R"({"consistency": "sync", "cross_device_ops": "ring"})",
       "cross_device_ops: is \"ring\", but there"},
      {R"({"consistency": "sync", "cross_device_ops": "nccl"})",
       "cross_device_ops: \"nccl\" adds in an order of its own, by which bits depend on the number "
       "of devices: give `reduce` \"fast\""},
      {R"({"consistency": "sync", "backup": {"factor": 1}})",
       "backup.factor: must be a number from 1.1 to 100, is 1"},
      {R"({"consistency": "sync", "backup": {"factors": 2}})", "backup.factors: unknown key"},
      {R"({"threads": 0})", "threads: must be an integer from 1 to 1024"},
      {R"({"consistency": {}})", "consistency.staleness: is missing"},
      {R"({"consistency": {"staleness": 1001}})",
       "consistency.staleness: must be an integer from 0 to 1000"},
      {R"({"consistency": {"staleness": -1}})", "consistency.staleness: must be an integer"},
      {R"({"consistency": {"staleness": 1, "stale": 2}})", "consistency.stale: unknown key"},
      {R"({"consistency": {"staleness": 1}, "round_batches": 0})",
       "round_batches: must be an integer from 1 to 256"},
      {R"({"consistency": {"staleness": 1}, "round_batches": 257})",
       "round_batches: must be an integer from 1 to 256"},
      {R"({"consistency": "async", "round_batches": 4})",
       "round_batches: is of jobs with rounds, and `consistency` is \"async\", which has none"},
      {R"({"consistency": {"staleness": 1}, "split_batches": 4})",
       "split_batches: does not go with `consistency` {\"staleness\": 1}, which cuts epochs"},
  };
  for (const auto& [keys, problem] : cases) {
    CAPTURE(keys);
    CHECK(RoundsProblemOf(keys).find(problem) == 0);
  }
}

TEST_CASE("how lanes of a worker are added up is in the text of a job that says it alone") {
  const std::string plain = JobToJson(JobWith(R"({"consistency": "sync"})").value());
  const Job said =
      JobWith(R"({"consistency": "sync", "reduce": "exact", "cross_device_ops": "auto"})").value();
  CHECK(JobToJson(said) == plain);
  for (const char* ops : {"nccl", "hierarchical_copy", "reduction_to_one_device"}) {
    const Job fast = JobWith(absl::StrCat(R"({"consistency": "sync", "reduce": "fast", )",
                                          R"("cross_device_ops": ")", ops, R"("})"))
                         .value();
    CHECK(fast.guarantees.reduce_fast);
    const nlohmann::json text = JsonOf(JobToJson(fast));
    CHECK(text.at("reduce") == "fast");
    CHECK(text.at("cross_device_ops") == ops);
    CHECK(JobToJson(ParseJob(TextOf(text)).value()) == JobToJson(fast));
  }
}

TEST_CASE("a synchronous job may clip by norm") {
  for (const char* key : {"clipnorm", "global_clipnorm"}) {
    const Job job =
        JobWith(absl::StrCat(R"({"consistency": "sync", "optimizer": {"name": "sgd", ")", key,
                             R"(": 1}})"))
            .value();
    CHECK(job.optimizer.options.contains(key));
  }
}

TEST_CASE("the batches of a round cannot change on resume") {
  const DataPlan plan = PlanOfLanes(1000, 10, 4);
  const Job by_cluster = JobWith(R"({"consistency": {"staleness": 1}})").value();
  const Job four = JobWith(R"({"consistency": {"staleness": 1}, "round_batches": 4})").value();
  const Job five = JobWith(R"({"consistency": {"staleness": 1}, "round_batches": 5})").value();
  CHECK(CheckResumable(by_cluster, four, plan).ToString() == "OK");
  CHECK(CheckResumable(four, by_cluster, plan).ToString() == "OK");
  CHECK(CheckResumable(by_cluster, five, plan).message() ==
        "round_batches: was 4 and is now 5, but cannot change on resume");
  const Job async = JobWith("{}").value();
  CHECK(CheckResumable(async, by_cluster, PlanOf(1000, 10, 4)).message() ==
        "consistency: was \"async\" and is now {\"staleness\":1}, but cannot change on resume");
}

}  // namespace
}  // namespace paracord
