#include "coordinator/coordinator_process.h"

#include <catch2/catch.hpp>

#include "tests/example_job.h"

namespace paracord {
namespace {

// Returns the options of a coordinator for the example job, changed by `settings`.
absl::StatusOr<CoordinatorOptions> OptionsIn(const std::string& jobs,
                                             const std::vector<std::string>& settings,
                                             const std::vector<std::string>& ps_addresses,
                                             uint32_t devices = 1) {
  ExampleJob example;
  const auto cluster = ParseTfConfig("{\"cluster\": {" + jobs + "}}");
  REQUIRE((cluster.ok() && cluster->has_value()));
  CoordinatorFlags flags;
  flags.job = example.path("job.json");
  flags.set = settings;
  return ReadCoordinatorOptions(
      example.files, flags, **cluster, ps_addresses,
      {.dir = "/dir", .host = "", .credentials = nullptr, .devices = devices});
}

constexpr char kTwoWorkers[] = R"("worker": ["a:1", "b:1"])";
constexpr char kOneWorker[] = R"("worker": ["a:1"])";
constexpr char kTwoPs[] = R"("chief": ["c:1"], "ps": ["a:1", "b:1"], "worker": ["w:1", "w:2"])";
const std::vector<std::string> kBoth = {"a:1", "b:1"};

TEST_CASE("a coordinator trains a job by the strategy that its cluster allows") {
  const auto workers = OptionsIn(kTwoWorkers, {}, kBoth);
  REQUIRE(workers.ok());
  CHECK(workers->nodes);
  CHECK(workers->job.guarantees.strategy == "multi_worker_mirrored");
  CHECK(workers->job.guarantees.sync());
  const auto one = OptionsIn(kOneWorker, {}, {"a:1"});
  REQUIRE(one.ok());
  CHECK(one->job.guarantees.strategy == "one_device");
  CHECK_FALSE(one->job.guarantees.rounds());
  const auto several = OptionsIn(kOneWorker, {}, {"a:1"}, /*devices=*/4);
  REQUIRE(several.ok());
  CHECK(several->job.guarantees.strategy == "mirrored");
  CHECK(several->job.guarantees.sync());
  const auto ps = OptionsIn(kTwoPs, {}, kBoth);
  REQUIRE(ps.ok());
  CHECK_FALSE(ps->nodes);
  CHECK_FALSE(ps->job.guarantees.rounds());
  const auto said = OptionsIn(kTwoWorkers, {"consistency=async"}, kBoth);
  REQUIRE(said.ok());
  CHECK_FALSE(said->job.guarantees.rounds());
}

TEST_CASE("a coordinator refuses a strategy that its cluster cannot run, by both keys") {
  const auto problem = [](const absl::StatusOr<CoordinatorOptions>& options) {
    return std::string(options.status().message());
  };
  CHECK(
      problem(OptionsIn(kTwoPs, {"strategy=mirrored"}, kBoth)) ==
      "strategy: is mirrored, which has no ps, and the cluster names 2 ps (key cluster.ps): leave "
      "them out, or give \"parameter_server\"");
  CHECK(problem(OptionsIn(kTwoWorkers, {"strategy=parameter_server"}, kBoth))
            .starts_with("strategy: is parameter_server, which needs ps"));
  CHECK(problem(OptionsIn(kOneWorker, {"consistency=async"}, {"a:1"}, /*devices=*/2))
            .starts_with("consistency: is \"async\", and --device names 2 devices"));
  CHECK(problem(OptionsIn(kTwoWorkers, {"split_batches=4"}, kBoth))
            .find("(strategy is multi_worker_mirrored, because ") != std::string::npos);
}

}  // namespace
}  // namespace paracord
