// Tests `paracord compute` on a program file, with a fake PJRT plug-in (tests/fake_pjrt).
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "cli/commands.h"
#include "cli/tensor_file.h"
#include "common/json_text.h"
#include "tests/example_job.h"
#include "tests/program/stablehlo_file.h"

namespace paracord {
namespace {

struct ProgramCompute {
  ProgramCompute() {
    example.Write("model.program", TextOf(FakeProgramFile()));
    const std::vector<float> w = {1, 2, 3, 4, 5, 6}, b = {7, 8, 9}, mean = {10, 11}, frozen = {12};
    const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8}, y = {3, 2, 1, 0};
    Put("w", {{"w", {2, 3}, w}, {"b", {3}, b}, {"mean", {2}, mean}, {"frozen", {}, frozen}});
    Put("b", {{"inputs/x", {4, 2}, x}, {"targets", {4}, y}});
  }
  void Put(const std::string& name, const std::vector<NamedTensor>& tensors) {
    REQUIRE(WriteTensors(example.files, example.path(name), tensors, {}).ok());
  }
  int Run(const std::vector<std::string>& more) {
    std::vector<std::string> args = {example.path("model.program"),
                                     "--weights",
                                     example.path("w"),
                                     "--batch",
                                     example.path("b"),
                                     "--out",
                                     example.path("o")};
    args.insert(args.end(), more.begin(), more.end());
    std::ostringstream out, err_stream;
    const int code = RunCompute(args, out, err_stream);
    err = err_stream.str();
    UNSCOPED_INFO(err);
    return code;
  }

  ExampleJob example;
  std::string err;
};

const std::string kFakeDevice = "pjrt:" PARACORD_BIN_DIR "/fake_plugins/fake_pjrt.so";

TEST_CASE("compute runs a program file on a PJRT plug-in") {
  ProgramCompute compute;
  REQUIRE(compute.Run({"--device", kFakeDevice, "--steps=0"}) == 0);
  std::map<std::string, std::vector<float>> found;
  const auto tensors = ReadTensors(compute.example.files, compute.example.path("o"));
  REQUIRE(tensors.ok());
  for (const ReadTensor& tensor : *tensors) found[tensor.name] = tensor.values;
  CHECK(found["output"] == std::vector<float>{10, 20, 30, 40, 50, 60, 70, 80});
  CHECK(found["gradients/w"] == std::vector<float>{2, 4, 6, 8, 10, 12});
  CHECK(found["gradients/b"] == std::vector<float>{4, 3, 2});
  CHECK(found["after/frozen"] == std::vector<float>{12});
}

TEST_CASE("compute says what a program file lacks") {
  ProgramCompute compute;
  CHECK(compute.Run({"--device", kFakeDevice}) == 2);
  CHECK(absl::StrContains(compute.err, "a program has no optimizer: give --job JOB, or --steps 0"));
  unsetenv("PARACORD_PJRT_PLUGINS");
  CHECK(compute.Run({"--steps=0"}) == 2);
  CHECK(absl::StrContains(compute.err, "say --device pjrt:PATH of its library"));
  compute.example.Write("model.program", R"({"class_name": "Sequential", "config": {"name": "s",
      "layers": [{"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}}]},
      "compile_config": {"loss": "mse"}})");
  CHECK(compute.Run({"--device", kFakeDevice, "--steps=0"}) == 2);
  CHECK(absl::StrContains(compute.err, "a PJRT plug-in computes programs of StableHLO alone"));
}

}  // namespace
}  // namespace paracord
