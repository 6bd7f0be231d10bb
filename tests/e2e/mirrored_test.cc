// Compares a synchronous job with Keras under tf.distribute's MirroredStrategy. A lane corresponds
// to a replica, a round to an update (tests/golden/make_rounds.py).
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

// Writes the initial values of variables with one or two axes to a safetensors file.
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

// Runs `paracord ARGUMENTS` in the folder `root`.
void Run(const std::string& root, const std::string& arguments) {
  const std::string log = root + "/command.log";
  Process process({"/bin/sh", "-c", "cd " + root + " && paracord " + arguments},
                  {{"PATH", PARACORD_BIN_DIR ":/usr/bin:/bin"}, {"TMPDIR", root}}, log);
  const auto code = process.Wait(60000);
  INFO(arguments << ": " << ReadText(log));
  REQUIRE(code == 0);
}

// Writes inputs, targets and initial values into `root`.
void WriteInputs(const std::string& root, const json& golden) {
  const uint64_t batch = golden["batch"], lanes = golden["replicas"], updates = golden["updates"];
  const uint64_t examples = batch * lanes * updates;
  for (const auto& [file, key] : {std::pair("x.npy", "inputs"), std::pair("y.npy", "targets")}) {
    const auto values = golden[key].get<std::vector<float>>();
    WriteNpy(absl::StrCat(root, "/", file), {examples, values.size() / examples}, values);
  }
  WriteWeights(root + "/begin.safetensors", golden);
}

// Trains with the keys of `own` added to the common job. Returns the path of the export.
std::string TrainedBy(const std::string& root, const json& golden, const std::string& name,
                      const std::string& arguments, const json& own) {
  json job = {
      {"model", golden["model"]},
      {"data", {{"train", {{"format", "npy"}, {"features", "x.npy"}, {"labels", "y.npy"}}}}},
      {"shuffle", false},
      {"epochs", 1},
      {"loss", "mse"},
      {"initial_weights", "begin.safetensors"},
      {"partitioner", {{"kind", "fixed_shards"}, {"shards", 2}}}};
  job.update(own);
  WriteText(root + "/job.json", TextOf(job));
  Run(root, absl::StrCat("train job.json ", arguments, " --dir run-", name));
  Run(root, absl::StrCat("export --dir run-", name, " --out run-", name, ".safetensors"));
  return absl::StrCat(root, "/run-", name, ".safetensors");
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
  const TestDirectory temp;
  WriteInputs(temp.path(), golden);
  for (const json& one : golden["cases"]) {
    CAPTURE(one["name"]);
    const json own = {{"batch", golden["batch"]},
                      {"round_batches", golden["replicas"]},
                      {"consistency", "sync"},
                      {"optimizer", one["optimizer"]}};
    CheckExport(TrainedBy(temp.path(), golden, one["name"], "--workers 3 --ps 2", own),
                one["after"]);
  }
}

// Keras 3 clips each replica's share under a strategy, so the reference is a run on one device with
// the batches of a round joined. A joined batch would change the statistics of BatchNormalization,
// so the layer is left out.
TEST_CASE("a round that is clipped by norm is as one batch of one device") {
  json golden = GoldenJson("rounds.keras3.json");
  json& layers = golden["model"]["config"]["layers"];
  std::erase_if(layers.get_ref<json::array_t&>(),
                [](const json& layer) { return layer["config"]["name"] == "n"; });
  for (const char* of : {"n/gamma", "n/beta", "n/moving_mean", "n/moving_variance"}) {
    golden["weights"].erase(of);
  }
  const TestDirectory temp;
  WriteInputs(temp.path(), golden);
  const uint64_t batch = golden["batch"], lanes = golden["replicas"];
  for (const auto& [key, norm] : {std::pair("clipnorm", 0.05), std::pair("global_clipnorm", 0.1)}) {
    CAPTURE(key);
    const json optimizer = {{"name", "sgd"}, {"learning_rate", 0.5}, {key, norm}};
    const std::string one =
        TrainedBy(temp.path(), golden, absl::StrCat(key, "-one"), "--workers 1 --ps 1",
                  {{"batch", batch * lanes}, {"optimizer", optimizer}});
    json after;
    PosixFiles files;
    const auto file = SafetensorsFile::Open(files, one);
    for (const auto& [name, first] : golden["weights"].items()) {
      std::vector<float> values(first.size());
      REQUIRE((*file)->ReadElements(*(*file)->header().Find(name), 0, values).ok());
      after[name] = values;
    }
    CheckExport(TrainedBy(temp.path(), golden, absl::StrCat(key, "-round"), "--workers 3 --ps 2",
                          {{"batch", batch},
                           {"round_batches", lanes},
                           {"consistency", "sync"},
                           {"optimizer", optimizer}}),
                after);
  }
}

}  // namespace
}  // namespace paracord::e2e
