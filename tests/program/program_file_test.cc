// Reads valid and damaged program files, and checks the errors.
#include "program/program_file.h"

#include <catch2/catch.hpp>
#include <functional>

#include "absl/strings/match.h"
#include "tests/program/stablehlo_file.h"

namespace paracord {
namespace {

using nlohmann::json;

json ReplicaStep(uint32_t replicas) {
  return JsonOf(TextOf(FakeReplicaStep(/*batch=*/4, replicas)));
}

// Has a step pass the variable "frozen" as a table, and give its gradient.
void MakeTable(json& module) {
  if (module["kind"] != "step") return;
  module["arguments"][3]["rows"] = 2u;
  module["results"].push_back({{"kind", "gradient"}, {"name", "frozen"}});
}

TEST_CASE("steps of several replicas are read, and said in numbers") {
  json document = FakeProgramFile();
  CHECK(ReplicasOf(ReadProgramFile(document).value()) == 1);
  document["modules"].push_back(ReplicaStep(8));
  const absl::StatusOr<ProgramFile> file = ReadProgramFile(document);
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK(ReplicasOf(*file) == 8);
  CHECK(file->modules[3].replicas == 8);
  CHECK(file->modules[3].batch == 4);
}

TEST_CASE("a program file is read") {
  const absl::StatusOr<ProgramFile> file = ReadProgramFile(FakeProgramFile());
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK(file->variables.size() == 4);
  CHECK(file->variables[0].initializer().name() == "ones");
  CHECK(file->variables[2].moving_average() == 0.5);
  CHECK_FALSE(file->variables[3].trainable());
  CHECK(file->targets[0].type == ColumnType::kInt32);
  CHECK(file->outputs[0].shape == Shape{2});
  REQUIRE(file->modules.size() == 3);
  CHECK(file->modules[0].step);
  CHECK(file->modules[0].batch == 4);
  CHECK(file->modules[0].arguments[5].kind == ModuleArgument::Kind::kTarget);
  CHECK(file->modules[0].results[2].index == 1);
  CHECK(file->modules[2].code == "f32 4x2 0 10 0\n");
  CHECK_FALSE(file->modules[2].step);
}

void CheckRefused(const std::function<void(json&)>& change, const std::string& why) {
  json document = FakeProgramFile();
  change(document);
  const absl::Status status = ReadProgramFile(document).status();
  INFO(status);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(absl::StrContains(status.message(), why));
}

TEST_CASE("what is wrong with a program file is said with its place") {
  const auto [change, why] = GENERATE(table<std::function<void(json&)>, std::string>({
      {[](json& file) { file["format"] = 2; }, "must have the format 1, is 2"},
      {[](json& file) { file["extra"] = 2; }, "extra: "},
      {[](json& file) { file["variables"] = 7; }, "variables: must be a list"},
      {[](json& file) { file["variables"][1]["name"] = "w"; },
       "name: \"b\" is none that the file has"},
      {[](json& file) { file["inputs"][0]["dtype"] = "float16"; }, "inputs[0].dtype: "},
      {[](json& file) { file["inputs"][0].erase("shape"); }, "inputs[0].shape: must be a list"},
      {[](json& file) { file["inputs"].push_back(file["inputs"][0]); },
       "inputs: there are two \"x\""},
      {[](json& file) { file["modules"].clear(); }, "modules: there is no step"},
      {[](json& file) {
         file["modules"].erase(0);
         file["modules"].erase(0);
       },
       "modules: there is no step"},
      {[](json& file) { file["modules"][0]["kind"] = "train"; }, "modules[0].kind: "},
      {[](json& file) { file["modules"][0].erase("kind"); }, "modules[0].kind: must be step or"},
      {[](json& file) { file["modules"][0]["batch"] = 0; }, "modules[0].batch: "},
      {[](json& file) { file["modules"][1]["batch"] = 4u; },
       "modules[1] has the kind and the batch of 4 of one before it"},
      {[](json& file) { file["modules"][0]["code"] = "!"; },
       "modules[0].code: must be StableHLO in base64"},
      {[](json& file) { file["modules"][0]["arguments"][0]["name"] = "v"; },
       "modules[0].arguments[0].name: \"v\" is none that the file has"},
      {[](json& file) { file["modules"][0]["arguments"][6].erase("kind"); },
       "modules[0].arguments[6].kind: "},
      {[](json& file) { file["modules"][0]["results"].erase(0); },
       "modules[0] is a step and has no loss"},
      {[](json& file) { file["modules"][0]["results"].erase(2); },
       "modules[0] lacks the gradient of b"},
      {[](json& file) { file["modules"][0]["results"][2]["name"] = "w"; },
       "modules[0] has a result twice"},
      {[](json& file) { file["modules"][0]["results"][2]["name"] = "frozen"; },
       "modules[0] has a result twice, or one that is none of its kind's"},
      {[](json& file) { file["modules"][2]["results"] = json::array(); },
       "modules[2] lacks the output \"\""},
  }));
  CheckRefused(change, why);
}

TEST_CASE("what is wrong with steps of several replicas is said with its place") {
  const auto [change, why] = GENERATE(table<std::function<void(json&)>, std::string>({
      {[](json& file) { file["modules"][0]["replicas"] = 0u; }, "modules[0].replicas: "},
      {[](json& file) { file["modules"][0]["replicas"] = 512u; }, "modules[0].replicas: "},
      {[](json& file) { file["modules"][0]["replicas"] = 2u; },
       "modules[0], for 2 replicas, lacks a step of 4 examples for one replica"},
      {[](json& file) { file["modules"].push_back(ReplicaStep(3)); },
       "modules[3], for 3 replicas, must be for a power of two of them"},
      {[](json& file) {
         file["modules"].push_back(ReplicaStep(2));
         file["modules"].push_back(ReplicaStep(2));
       },
       "modules[4] has the kind and the batch of 4 of one before it"},
      {[](json& file) {
         file["modules"].push_back(ReplicaStep(2));
         file["modules"].push_back(ReplicaStep(4));
       },
       "modules[4], for 4 replicas, is beside one for 2 replicas"},
      {[](json& file) { file["modules"][2]["replicas"] = 2u; },
       "modules[2], for 2 replicas, is a prediction, which one computes"},
      {[](json& file) {
         file["modules"].push_back(ReplicaStep(2));
         file["variables"][3]["shape"] = {3u, 2u};
         file["variables"][3]["trainable"] = true;
         file["variables"][3]["table"]["columns"] = {"x"};
         for (json& module : file["modules"]) MakeTable(module);
       },
       "modules[3], for 2 replicas, adds up gradients, and those of the table frozen "},
  }));
  CheckRefused(change, why);
}

TEST_CASE("nothing that a program file may have of another type is taken") {
  // Replaces each value of the document in turn by another type.
  const json document = FakeProgramFile();
  const json flat = document.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    for (const json& instead : {json(), json(-1), json(1e300), json("x"), json::array({json()})}) {
      json changed = document;
      changed[json::json_pointer(pointer)] = instead;
      const absl::StatusOr<ProgramFile> file = ReadProgramFile(changed);
      INFO(pointer);
      if (!file.ok()) CHECK(absl::IsInvalidArgument(file.status()));
    }
  }
}

}  // namespace
}  // namespace paracord
