// A synchronous job beside Keras under tf.distribute's MirroredStrategy: a lane is a replica, and a
// round is one update (tests/golden/make_rounds.py).
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "storage/safetensors.h"
#include "tests/fakes.h"
#include "tests/golden/golden.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

// Writes arrays by the names of variables, which are 1 or 2 axes wide as the model's are.
void WriteWeights(const std::string& path, const json& golden) {
  const uint64_t units = golden["weights"]["a/bias"].size();
  PosixFiles files;
  std::vector<TensorInfo> tensors;
  for (const auto& [name, values] : golden["weights"].items()) {
    std::vector<uint64_t> shape = {values.size()};
    if (name == "a/kernel") shape = {values.size() / units, units};
    if (name == "b/kernel") shape = {units, values.size() / units};
    tensors.push_back({.name = name, .shape = shape});
  }
  auto writer = SafetensorsWriter::Create(files, path, tensors, {});
  REQUIRE(writer.ok());
  for (const auto& [name, values] : golden["weights"].items()) {
    REQUIRE((*writer)->Append(values.get<std::vector<float>>()).ok());
  }
  REQUIRE((*writer)->Finish().ok());
}

// Runs `paracord ARGUMENTS` in a folder.
void Run(const std::string& root, const std::string& arguments) {
  const std::string log = root + "/command.log";
  Process process({"/bin/sh", "-c", "cd " + root + " && paracord " + arguments},
                  {{"PATH", PARACORD_BIN_DIR ":/usr/bin:/bin"}, {"TMPDIR", root}}, log);
  const auto code = process.Wait(60000);
  INFO(arguments << ": " << ReadText(log));
  REQUIRE(code == 0);
}

void CheckExport(const std::string& path, const json& after) {
  PosixFiles files;
  const auto file = SafetensorsFile::Open(files, path);
  REQUIRE(file.ok());
  for (const auto& [name, values] : after.items()) {
    INFO(name);
    const TensorInfo* const stored = (*file)->header().Find(name);
    REQUIRE(stored != nullptr);
    std::vector<float> ours(values.size());
    REQUIRE((*file)->ReadElements(*stored, 0, ours).ok());
    for (size_t i = 0; i < ours.size(); ++i) {
      INFO("element " << i);
      CHECK(std::abs(static_cast<double>(ours[i]) - values[i].get<double>()) <= 1e-5);
    }
  }
}

TEST_CASE("a synchronous job makes what replicas of MirroredStrategy make") {
  const json golden = GoldenJson("rounds.keras3.json");
  const uint64_t batch = golden["batch"], lanes = golden["replicas"], updates = golden["updates"];
  const TestDirectory temp;
  const std::string& root = temp.path();
  const uint64_t examples = batch * lanes * updates;
  for (const auto& [file, key] : {std::pair("x.npy", "inputs"), std::pair("y.npy", "targets")}) {
    const auto values = golden[key].get<std::vector<float>>();
    WriteNpy(absl::StrCat(root, "/", file), {examples, values.size() / examples}, values);
  }
  WriteWeights(root + "/begin.safetensors", golden);
  for (const json& one : golden["cases"]) {
    CAPTURE(one["name"]);
    const json job = {
        {"model", golden["model"]},
        {"data", {{"train", {{"format", "npy"}, {"features", "x.npy"}, {"labels", "y.npy"}}}}},
        {"batch", batch},
        {"round_batches", lanes},
        {"consistency", "sync"},
        {"shuffle", false},
        {"epochs", 1},
        {"loss", "mse"},
        {"optimizer", one["optimizer"]},
        {"initial_weights", "begin.safetensors"},
        {"partitioner", {{"kind", "fixed_shards"}, {"shards", 2}}}};
    WriteText(root + "/job.json", TextOf(job));
    const std::string dir = absl::StrCat("run-", one["name"].get<std::string>());
    Run(root, absl::StrCat("train job.json --workers 3 --ps 2 --dir ", dir));
    Run(root, absl::StrCat("export --dir ", dir, " --out ", dir, ".safetensors"));
    CheckExport(absl::StrCat(root, "/", dir, ".safetensors"), one["after"]);
  }
}

}  // namespace
}  // namespace paracord::e2e
