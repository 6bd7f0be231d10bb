#include "config/strategy.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paracord {
namespace {

// Returns the strategy, or the problem.
std::string Chosen(const std::string& said, const ClusterShape& shape) {
  GuaranteesSpec guarantees;
  guarantees.strategy = said;
  const absl::StatusOr<StrategyChoice> choice = ChooseStrategy(guarantees, shape);
  return choice.ok() ? choice->name : std::string(choice.status().message());
}

TEST_CASE("a cluster that a job says nothing of gets the strategy that its tasks allow") {
  CHECK(Chosen("auto", {2, 3}) == "parameter_server");
  CHECK(Chosen("auto", {2, 0}) == "parameter_server");
  CHECK(Chosen("auto", {0, 1}) == "one_device");
  CHECK(Chosen("auto", {0, 1, 4}) == "mirrored");
  CHECK(Chosen("auto", {0, 2}) == "multi_worker_mirrored");
  CHECK(Chosen("auto", {0, 2, 4}) == "multi_worker_mirrored");
  CHECK(ChooseStrategy(GuaranteesSpec(), {0, 3})->why == "the cluster names 3 workers and no ps");
}

TEST_CASE("a job that says it is asynchronous keeps its updates in a cluster of workers alone") {
  GuaranteesSpec said;
  said.consistency_said = true;
  CHECK(ChooseStrategy(said, {0, 2})->name == "parameter_server");
  CHECK(ChooseStrategy(said, {0, 1})->name == "one_device");
  said.staleness = 2;
  CHECK(ChooseStrategy(said, {0, 2})->name == "parameter_server");
  said.staleness.reset();
  said.consistency = "sync";
  CHECK(ChooseStrategy(said, {0, 2})->name == "multi_worker_mirrored");
}

TEST_CASE("people are told why a job has its strategy, also where it was read for its cluster") {
  GuaranteesSpec read;  // derived by `paracord train`
  read.strategy = "multi_worker_mirrored";
  read.consistency = "sync";
  read.consistency_said = true;
  const StrategyChoice nodes = ExplainStrategy(read, {0, 2});
  CHECK(nodes.name == "multi_worker_mirrored");
  CHECK(nodes.why == "the cluster names 2 workers and no ps");
  CHECK(ExplainStrategy(GuaranteesSpec(), {2, 2}).why == "the cluster names 2 ps (key cluster.ps)");
  GuaranteesSpec central;
  central.strategy = "central_storage";
  central.consistency = "sync";
  CHECK(ExplainStrategy(central, {0, 1, 2}).name == "central_storage");
  CHECK(ExplainStrategy(central, {0, 1, 2}).why == "the job says so");
}

TEST_CASE("a strategy runs in the clusters that fit it and in no other") {
  CHECK(Chosen("parameter_server", {1, 0}) == "parameter_server");
  CHECK(Chosen("one_device", {0, 1}) == "one_device");
  CHECK(Chosen("central_storage", {0, 1, 4}) == "central_storage");
  CHECK(Chosen("mirrored", {0, 1}) == "mirrored");
  CHECK(Chosen("multi_worker_mirrored", {0, 1}) == "multi_worker_mirrored");

  CHECK(Chosen("parameter_server", {0, 2}) ==
        "strategy: is parameter_server, which needs ps, and the cluster names none (key "
        "cluster.ps): add them, or give \"multi_worker_mirrored\", with which workers hold the "
        "variables");
  CHECK(
      Chosen("mirrored", {2, 1}) ==
      "strategy: is mirrored, which has no ps, and the cluster names 2 ps (key cluster.ps): leave "
      "them out, or give \"parameter_server\"");
  CHECK(
      Chosen("central_storage", {0, 2}) ==
      "strategy: is central_storage, which is of one worker, and the cluster names 2 workers (key "
      "cluster.worker): give \"multi_worker_mirrored\"");
  CHECK(Chosen("one_device", {0, 1, 4}) ==
        "strategy: is one_device, and --device names 4: name one, or give \"mirrored\"");
  CHECK(Chosen("auto", {0, 0}).find("names neither ps (key cluster.ps) nor workers") !=
        std::string::npos);
}

TEST_CASE("a cluster that flags ask for is named by them") {
  ClusterShape workers{.ps = 0, .workers = 3, .by_flags = true};
  ClusterShape ps{.ps = 2, .workers = 3, .by_flags = true};
  CHECK(ChooseStrategy(GuaranteesSpec(), workers)->why == "--workers is 3 and --ps is 0");
  CHECK(ChooseStrategy(GuaranteesSpec(), ps)->why == "--ps is 2");
  CHECK(Chosen("parameter_server", workers) ==
        "strategy: is parameter_server, which needs ps, and --ps is 0: add them, or give "
        "\"multi_worker_mirrored\", with which workers hold the variables");
  CHECK(Chosen("mirrored", ps) ==
        "strategy: is mirrored, which has no ps, and --ps is 2: leave them out, or give "
        "\"parameter_server\"");
  CHECK(Chosen("central_storage", workers) ==
        "strategy: is central_storage, which is of one worker, and --workers is 3: give "
        "\"multi_worker_mirrored\"");
}

TEST_CASE("several devices are refused by both keys where a job has no rounds") {
  GuaranteesSpec said;
  said.consistency_said = true;
  ClusterShape shape{.ps = 1, .workers = 1, .devices = 2};
  CHECK(CheckDevices(said, shape).message() ==
        "consistency: is \"async\", and --device names 2 devices, which compute the lanes of a "
        "round: name one device, or give `consistency` \"sync\" or {\"staleness\": S}");
  said.staleness = 1;
  CHECK(CheckDevices(said, shape).ok());
  said.staleness.reset();
  shape.divides_batches = true;
  CHECK(CheckDevices(said, shape).ok());
  shape = {.ps = 1, .workers = 4, .devices = 1};
  CHECK(CheckDevices(said, shape).ok());

  const auto read = [&](std::span<const std::string>) -> absl::StatusOr<Job> {
    Job job;
    job.guarantees = said;
    return job;
  };
  CHECK(ReadJobIn(shape, {}, read).ok());
  CHECK(absl::IsInvalidArgument(ReadJobIn({0, 1, 2}, {}, read).status()));
}

TEST_CASE("a job with copies needs two ps") {
  Job job;
  CHECK(CheckCopies(job, {.ps = 1, .workers = 1}).ok());
  job.partitioner.copies = 1;
  CHECK(CheckCopies(job, {.ps = 2, .workers = 1}).ok());
  CHECK(CheckCopies(job, {.ps = 1, .workers = 1}).message() ==
        "copies: is 1, which gives each partition two ps, and the cluster names 1 ps (key "
        "cluster.ps): add a second ps, or leave copies out");
  CHECK(CheckCopies(job, {.ps = 0, .workers = 2, .by_flags = true}).message() ==
        "copies: is 1, which gives each partition two ps, and --ps is 0: leave copies out, or add "
        "ps");
  const auto read = [&](std::span<const std::string>) -> absl::StatusOr<Job> { return job; };
  CHECK(absl::IsInvalidArgument(ReadJobIn({1, 1, 1}, {}, read).status()));
  CHECK(ReadJobIn({2, 1, 1}, {}, read).ok());
  job.guarantees.strategy = "mirrored";
  CHECK(ReadJobIn({.ps = 0, .workers = 1, .devices = 2, .by_flags = true}, {}, read)
            .status()
            .message() ==
        "copies: is 1, which gives each partition two ps, and strategy is \"mirrored\", which has "
        "none: leave copies out, or give \"parameter_server\"");
}

TEST_CASE("a job is read again with the strategy that its cluster chose") {
  std::vector<std::string> settings_seen;
  const auto read = [&](std::span<const std::string> settings) -> absl::StatusOr<Job> {
    settings_seen.push_back(absl::StrJoin(settings, " "));
    Job job;
    if (settings.size() == 2) job.guarantees.strategy = "multi_worker_mirrored";
    return job;
  };
  const std::vector<std::string> given = {"epochs=2"};
  const auto job = ReadJobIn({0, 2}, given, read);
  REQUIRE(job.ok());
  CHECK(job->strategy.name == "multi_worker_mirrored");
  CHECK(job->job.guarantees.strategy == "multi_worker_mirrored");
  CHECK(settings_seen ==
        std::vector<std::string>{"epochs=2", "epochs=2 strategy=multi_worker_mirrored"});

  settings_seen.clear();
  CHECK(ReadJobIn({2, 2}, given, read)->strategy.name == "parameter_server");
  CHECK(settings_seen == std::vector<std::string>{"epochs=2"});

  const auto refuse = [](std::span<const std::string> settings) -> absl::StatusOr<Job> {
    if (settings.empty()) return Job();
    return absl::InvalidArgumentError("consistency: is not \"sync\"");
  };
  CHECK(ReadJobIn({0, 2}, {}, refuse).status().message() ==
        "consistency: is not \"sync\" (strategy is multi_worker_mirrored, because the cluster "
        "names 2 workers and no ps)");
}

TEST_CASE("a job that goes on keeps the consistency of its directory unless it says one itself") {
  GuaranteesSpec said, saved;
  const auto kept = [&] { return absl::StrJoin(KeptSettingsOf(said, saved), " "); };
  CHECK(kept() == "consistency=async");
  saved.consistency = "sync";
  CHECK(kept() == "consistency=sync");
  said.strategy = "one_device";
  CHECK(kept() == "consistency=sync");
  said.strategy = "mirrored";
  CHECK(kept().empty());
  said.strategy = "auto";
  saved.consistency = "async";
  saved.staleness = 2;
  CHECK(kept() == "consistency={\"staleness\": 2}");
  said.consistency_said = true;
  CHECK(kept().empty());
}

TEST_CASE("a saved consistency decides the strategy of a job that goes on in another cluster") {
  const auto read = [](std::span<const std::string> settings) -> absl::StatusOr<Job> {
    Job job;
    for (const std::string& setting : settings) {
      const std::string value = setting.substr(setting.find('=') + 1);
      if (setting.starts_with("strategy=")) job.guarantees.strategy = value;
      if (!setting.starts_with("consistency=")) continue;
      job.guarantees.consistency = value;
      job.guarantees.consistency_said = true;
    }
    return job;
  };
  Job before;
  const auto strategy_in = [&](const ClusterShape& shape) {
    const auto job = ReadJobIn(shape, {}, read, [&] { return std::optional(before); });
    REQUIRE(job.ok());
    CHECK(job->job.guarantees.consistency == before.guarantees.consistency);
    return job->strategy.name;
  };
  CHECK(strategy_in({0, 2}) == "parameter_server");
  CHECK(strategy_in({0, 1}) == "one_device");
  before.guarantees.consistency = "sync";
  CHECK(strategy_in({2, 2}) == "parameter_server");
  CHECK(strategy_in({0, 1}) == "one_device");
  CHECK(strategy_in({0, 2}) == "multi_worker_mirrored");
  CHECK(strategy_in({1, 1, 2}) == "parameter_server");

  bool asked = false;
  const auto saved = [&] {
    asked = true;
    return std::optional(before);
  };
  const std::vector<std::string> own = {"consistency=async"};
  CHECK(ReadJobIn({2, 2}, own, read, saved)->job.guarantees.consistency == "async");
  CHECK_FALSE(asked);
}

}  // namespace
}  // namespace paracord
