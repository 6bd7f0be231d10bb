// Tests `paracord validate` on a job in a cluster without ps.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
  CHECK(absl::StrContains(example.out, " on 3 workers ("));

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

TEST_CASE("validate prints the plan of the cluster that --ps, --workers and --device ask for") {
  ValidateExample example;
  CHECK(example.Run({"--workers", "3", "--ps", "0"}) == 0);
  CHECK(absl::StrContains(
      example.out, "strategy: multi_worker_mirrored, because --workers is 3 and --ps is 0\n"));
  CHECK(absl::StrContains(example.out, "rounds: of 3 batches of 64, an effective batch of 192"));
  CHECK(absl::StrContains(example.out, " on 3 workers ("));
  CHECK(absl::StrContains(example.out, "  worker:2  "));

  CHECK(example.Run({"--workers", "2", "--set", "consistency=sync"}) == 0);
  CHECK(absl::StrContains(example.out, "strategy: parameter_server, because --ps is 1\n"));
  CHECK(absl::StrContains(example.out, "rounds: of 2 batches of 64"));
  CHECK(absl::StrContains(example.out, " on 1 ps ("));

  CHECK(example.Run({"--ps", "0", "--device", "cpu:4"}) == 0);
  CHECK(absl::StrContains(example.out, "strategy: mirrored, because "));
  CHECK(absl::StrContains(example.out, "rounds: of 4 batches of 64"));
  CHECK(absl::StrContains(example.out, " on 1 worker ("));

  CHECK(example.Run({"--workers", "2", "--ps", "1", "--set", "strategy=mirrored"}) == 2);
  CHECK(absl::StrContains(example.err, "which has no ps, and --ps is 1: leave them out"));
  CHECK(example.Run({"--set", "consistency=async", "--device", "cpu:2"}) == 2);
  CHECK(absl::StrContains(example.err, "consistency: is \"async\", and --device names 2 devices"));
  const std::string one = example.Write("one.json", R"({"cluster": {"worker": ["w:1"]}})");
  CHECK(example.Run({"--cluster", one, "--workers", "2"}) == 2);
  CHECK(absl::StrContains(example.err, "--cluster says how many there are"));
  CHECK(example.Run({"--device", "gpu:0"}) == 2);
  CHECK(absl::StrContains(example.err, "--device: \"gpu:0\" is none of auto, cpu"));
  for (const char* const device : {"cuda:", "cuda:x", "cuda:1,,2", "cuda:0,", "cuda:-1"}) {
    CHECK(example.Run({"--device", device}) == 2);
    CHECK(absl::StrContains(example.err,
                            absl::StrCat("--device: \"", device, "\" is none of auto, cpu")));
  }
  CHECK(example.Run({"--device", "cuda:1,1"}) == 2);
  CHECK(absl::StrContains(example.err, "--device cuda:1,1: a GPU is named twice"));
}

TEST_CASE("validate refuses the devices, sizes and clusters that train refuses") {
  ValidateExample example;
  for (const char* device : {"cpu:", "cpu:2x", "cpu:0", "cpu:-2"}) {
    CAPTURE(device);
    CHECK(example.Run({"--device", device, "--set", "accumulate=4", "--set", "stages=2"}) == 2);
    CHECK(
        absl::StrContains(example.err, absl::StrCat("--device ", device, ": cpu:N has N devices")));
  }
  CHECK(example.Run({"--memory-limit", "200MiB", "--ps", "1"}) == 0);
  CHECK(example.Run({"--memory-limit", "200MiB", "--ps", "0"}) == 2);
  CHECK(absl::StrContains(example.err, "--memory-limit: must be at least 256.0 MiB"));
  CHECK(example.Run({"--memory-limit", "much"}) == 2);
  CHECK(absl::StrContains(example.err, "--memory-limit"));
  CHECK(example.Run({"--ps", "65"}) == 2);
  CHECK(absl::StrContains(example.err, "--ps"));
  CHECK(example.Run({"--workers", "257"}) == 2);
  CHECK(absl::StrContains(example.err, "--workers"));
  const std::string hole =
      example.Write("hole.json", R"({"cluster": {"worker": {"0": "w:1", "2": "w:3"}}})");
  CHECK(example.Run({"--cluster", hole}) == 2);
  CHECK(absl::StrContains(example.err, "cluster.worker has index 2 and no index 1"));
}

TEST_CASE("validate prints into which stages a model is cut, or why it cannot be") {
  ValidateExample example;
  const auto run = [&](const std::string& accumulate, const std::string& stages) {
    return example.Run({"--set", "accumulate=" + accumulate, "--set", "stages=" + stages});
  };
  CHECK(run("4", "2") == 0);
  const std::string cut =
      "stage 1: flatten, 1 layer, 0 bytes of parameters, 0 multiply-adds to train on one example\n"
      "stage 2: dense, 1 layer, 60 bytes of parameters, 30 multiply-adds to train on one example\n";
  CHECK(absl::StrContains(example.out, cut));
  CHECK(run("4", R"(["dense"])") == 0);
  CHECK(absl::StrContains(example.out, cut));
  CHECK(example.Run({"--set", "accumulate=4", "--set", "stages=2", "--device", "cpu:2"}) == 0);
  CHECK(absl::StrContains(example.out, cut));
  CHECK(example.Run({"--set", "accumulate=4", "--set", "stages=2", "--device", "cpu:2", "--ps", "0",
                     "--workers", "3"}) == 0);
  CHECK(absl::StrContains(example.out, "rounds: of 3 batches of 64"));
  CHECK(example.Run({"--set", "accumulate=4", "--set", "stages=2", "--device", "cpu:3"}) == 2);
  CHECK(absl::StrContains(example.err,
                          "stages: the model is cut into 2, each on a device of its "
                          "own, and --device cpu:3 is 3: give --device cpu:2"));
  for (const char* device : {"cuda:0,1", "cuda:all"}) {  // whether they are here does not matter
    CAPTURE(device);
    CHECK(example.Run({"--set", "accumulate=4", "--set", "stages=2", "--device", device}) == 0);
    CHECK(absl::StrContains(example.out, cut));
  }
  CHECK(run("4", R"(["dens"])") == 2);
  CHECK(absl::StrContains(example.err,
                          "stages: the model computes no layer \"dens\"; did you mean `dense`?"));
  CHECK(run("4", "3") == 2);
  CHECK(absl::StrContains(example.err, "stages: is 3, and the model has 2 layers: give fewer"));
  CHECK(run("1", "2") == 2);
  CHECK(absl::StrContains(example.err, "with `accumulate` 1 a batch has one"));
  // Without data, the model file shows where the model can be cut.
  CHECK(example.Run({"--set", "accumulate=4", "--set", "stages=3", "--set",
                     "data.train.features=nowhere"}) == 2);
  CHECK(absl::StrContains(example.err, "stages: is 3, and the model has 2 layers: give fewer"));
}

}  // namespace
}  // namespace paracord
