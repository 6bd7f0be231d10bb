// Tests `paracord evaluate` on a DIR without a running coordinator.
#include <catch2/catch.hpp>
#include <vector>

#include "cli/commands.h"
#include "common/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/cli/ran.h"
#include "tests/example_job.h"

namespace paracord {
namespace {

using nlohmann::json;

TEST_CASE("evaluate scores a checkpoint on the job's test data") {
  ExampleJob example;
  example.Commit(2, 1, {.bias = 1});
  const std::string job = example.path("job.json");
  const std::string dir = example.directory.path();
  Ran ran = Run(RunEvaluate, {job, "--dir", dir, "--json"});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  const json result = JsonOf(ran.out);
  CHECK(result["checkpoint"] == "step-2-g1-r1");
  CHECK(result["examples"] == 3);
  CHECK(result["metrics"]["accuracy"] == Approx(1.0 / 3));
  ran = Run(RunEvaluate, {job, "--dir", dir});
  CHECK(Has(ran.out, "checkpoint step-2-g1-r1 (epoch 1, batch 2 of 2), 3 test records"));
  CHECK(Has(ran.out, "test accuracy: 0.333"));

  CHECK(Run(RunEvaluate, {job, "--dir", dir, "--step=9"}).code == 5);
  CHECK(Run(RunEvaluate, {job}).code == 2);
  CHECK(Run(RunEvaluate, {dir + "/none.json", "--dir", dir}).code == 2);
  ran = Run(RunEvaluate, {job, "--dir", dir, "--device=cuda:99"});
  CHECK(ran.code == 2);
  CHECK(Has(ran.err, "--device cuda:99"));
  CHECK(Run(RunEvaluate, {job, "--dir", dir, "--device=gpu"}).code == 2);
}

TEST_CASE("evaluate warns where the training data are others than the checkpoint's") {
  ExampleJob example;
  example.Commit(2, 1, {.bias = 1});
  const std::vector<std::string> args = {example.path("job.json"), "--dir",
                                         example.directory.path()};
  std::string job = *example.files.ReadWhole(args[0]);
  const std::string x = *example.files.ReadWhole(example.path("x"));
  example.Write("other", x.substr(0, x.size() - 1) + "?");
  job.replace(job.rfind("\"x\""), 3, "\"other\"");
  example.Write("job.json", job);  // a user may want to score other test data
  Ran ran = Run(RunEvaluate, args);
  CHECK(ran.code == 0);
  CHECK(ran.err.empty());
  job.replace(job.find("\"x\""), 3, "\"other\"");
  example.Write("job.json", job);
  ran = Run(RunEvaluate, args);
  CHECK(ran.code == 0);
  CHECK(Has(ran.err, "warning: data.train is not what the checkpoint was trained with"));
  CHECK(Has(ran.err, "(data.train.features: was "));
}

TEST_CASE("evaluate needs the test data alone, and what they lack the training data say") {
  ExampleJob example;
  example.Commit(2, 1, {.bias = 1});
  const std::string path = example.path("job.json");
  std::string job = *example.files.ReadWhole(path);
  const std::string train = R"("features": "x", "labels": "y"},)";
  job.replace(job.find(train), train.size(), R"("features": "gone", "labels": "gone"},)");
  job.erase(job.rfind("\"format\": \"idx\", "), 17);
  example.Write("job.json", job);
  const Ran ran = Run(RunEvaluate, {path, "--dir", example.directory.path()});
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(Has(ran.out, "test accuracy: 0.333"));
}

TEST_CASE("evaluate falls back to the CPU if the GPU cannot be used, and says so") {
  ExampleJob example;
  example.Commit(2, 1, {.bias = 1});
  const std::string job = example.path("job.json");
  const std::string dir = example.directory.path();
  setenv("PARACORD_CUDA_PLUGIN", PARACORD_BIN_DIR "/fake_plugins/libtwo.so", 1);
  const Ran automatic = Run(RunEvaluate, {job, "--dir", dir});
  const Ran named = Run(RunEvaluate, {job, "--dir", dir, "--device=cuda:0"});
  unsetenv("PARACORD_CUDA_PLUGIN");
  const std::string why = "cuda:0 cannot be used: cuBLAS is missing: no such file\n";
  CHECK(automatic.code == 0);
  CHECK(automatic.err == "paracord evaluate: computing on the CPU: " + why);
  CHECK(Has(automatic.out, "test accuracy: 0.333"));
  CHECK(named.code == 2);
  CHECK(named.err == "paracord evaluate: " + why);
}

TEST_CASE("evaluate refuses a job of another model, naming the variable") {
  ExampleJob example;
  example.Commit(2, 1, {});
  std::string model = *example.files.ReadWhole(example.path("model.json"));
  model.replace(model.find("\"units\": 3"), 10, "\"units\": 4");
  example.Write("model.json", model);
  const Ran ran = Run(RunEvaluate, {example.path("job.json"), "--dir", example.directory.path()});
  CHECK(ran.code == 2);
  CHECK(Has(ran.err, "variable dense/kernel has shape (4, 3), and the model's is (4, 4)"));
}

}  // namespace
}  // namespace paracord
