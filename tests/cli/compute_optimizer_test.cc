// Compares `paracord compute` with Keras' optimizers (tests/golden/make_optimizers.py), including
// compile_config, clipping, and the arithmetic of partitions.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include "cli/commands.h"
#include "cli/tensor_file.h"
#include "common/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/example_job.h"
#include "tests/golden/golden.h"

namespace paracord {
namespace {

using nlohmann::json;

void WriteFloats(ExampleJob& example, const std::string& name,
                 const std::vector<std::pair<std::string, std::vector<uint64_t>>>& shapes,
                 const std::vector<std::vector<float>>& values) {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < shapes.size(); ++i) {
    tensors.push_back({shapes[i].first, shapes[i].second, values[i]});
  }
  REQUIRE(WriteTensors(example.files, example.path(name), tensors, {}).ok());
}

void CheckTensors(const std::map<std::string, std::vector<float>>& ours, const std::string& prefix,
                  const json& theirs) {
  for (const auto& [name, values] : theirs.items()) {
    INFO(prefix << name);
    REQUIRE(ours.contains(prefix + name));
    const std::vector<float>& own = ours.at(prefix + name);
    REQUIRE(own.size() == values.size());
    for (size_t i = 0; i < own.size(); ++i) {
      CHECK(own[i] == Approx(values[i].get<double>()).epsilon(1e-4).margin(2e-6));
    }
  }
}

void CheckFile(const std::string& name, size_t at_least) {
  const json golden = GoldenJson(name);
  REQUIRE(golden["cases"].size() >= at_least);
  ExampleJob example;
  const std::vector<std::vector<float>> batch = {golden["inputs"].get<std::vector<float>>(),
                                                 golden["targets"].get<std::vector<float>>()};
  WriteFloats(example, "b", {{"inputs/in", {6, 3}}, {"targets", {6, 2}}}, batch);
  std::vector<std::vector<float>> weights;
  const std::vector<std::pair<std::string, std::vector<uint64_t>>> variables = {
      {"a/kernel", {3, 4}}, {"a/bias", {4}}, {"b/kernel", {4, 2}}, {"b/bias", {2}}};
  for (const auto& [variable, shape] : variables) {
    weights.push_back(golden["weights"][variable].get<std::vector<float>>());
  }
  WriteFloats(example, "w", variables, weights);
  for (const json& c : golden["cases"]) {
    INFO(c["name"]);
    json model = golden["model"];
    model["compile_config"] = {{"loss", "mse"}, {"optimizer", c["optimizer"]}};
    example.Write("model.json", TextOf(model));
    const std::vector<std::string> args = {
        example.path("model.json"), "--weights", example.path("w"), "--batch",
        example.path("b"),          "--out",     example.path("o"), "--steps",
        TextOf(golden["steps"])};
    std::ostringstream out, err;
    const int code = RunCompute(args, out, err);
    INFO(err.str());
    REQUIRE(code == 0);
    const auto tensors = ReadTensors(example.files, example.path("o"));
    REQUIRE(tensors.ok());
    std::map<std::string, std::vector<float>> ours;
    for (const ReadTensor& tensor : *tensors) ours[tensor.name] = tensor.values;
    CheckTensors(ours, "after/", c["after"]);
    CheckTensors(ours, "averages/", c.value("averages", json::object()));
    CHECK(ours.contains("averages/a/kernel") == c.contains("averages"));
  }
}

TEST_CASE("optimizers and schedules of Keras 3 leave the variables where Keras does") {
  CheckFile("optimizers.keras3.json", 35);
}

TEST_CASE("optimizers of Keras 2, new and legacy, leave the variables where Keras 2 does") {
  CheckFile("optimizers.keras2.json", 20);
}

}  // namespace
}  // namespace paracord
