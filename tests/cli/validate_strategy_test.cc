// Tests what `paracord validate` says of a job in a cluster without ps.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "tests/cli/validate_example.h"

namespace paracord {
namespace {

TEST_CASE("validate says which strategy a cluster without ps has, and who holds the variables") {
  ValidateExample example;
  const std::string workers =
      example.Write("workers.json", R"({"cluster": {"worker": ["w:1", "w:2", "w:3"]}})");
  CHECK(example.Run({"--cluster", workers}) == 0);
  CHECK(absl::StrContains(example.out,
                          "strategy: multi_worker_mirrored, because the cluster names 3 workers "
                          "and no ps\n"));
  CHECK(absl::StrContains(example.out, "rounds: of 3 batches of 64, an effective batch of 192"));
  CHECK(absl::StrContains(example.out, " on 3 ps ("));

  CHECK(example.Run({"--cluster", workers, "--set", "consistency=async"}) == 0);
  CHECK(absl::StrContains(example.out,
                          "strategy: parameter_server, because the job is asynchronous (key "
                          "consistency)"));
  CHECK(example.Run({"--cluster", workers, "--set", "overlap=true"}) == 2);
  CHECK(absl::StrContains(example.err, "overlap: computes on values of one round less"));
  CHECK(example.Run({"--cluster", workers, "--set", "strategy=parameter_server"}) == 2);
  CHECK(absl::StrContains(example.err, "the cluster names none (key cluster.ps)"));

  CHECK(example.Run({"--cluster", workers, "--set", "round_batches=6"}) == 0);
  CHECK(absl::StrContains(example.out, "rounds: of 6 batches of 64"));
  CHECK(example.Run({"--set", "round_batches=6"}) == 2);
  CHECK(absl::StrContains(example.err, "round_batches: is of jobs with rounds"));

  const std::string one = example.Write("one.json", R"({"cluster": {"worker": ["w:1"]}})");
  CHECK(example.Run({"--cluster", one}) == 0);
  CHECK(absl::StrContains(example.out, "strategy: one_device, because "));
  CHECK_FALSE(absl::StrContains(example.out, "rounds: "));
}

}  // namespace
}  // namespace paracord
