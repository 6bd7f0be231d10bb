// Jobs with tables, as real processes: only the rows that a batch reads travel.
#include <signal.h>

#include <catch2/catch.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/process.h"
#include "objects/all_files.h"
#include "storage/checkpoint.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

constexpr uint64_t kRows = 70000;  // rows of 4 floats, more than 1 MiB in all
constexpr uint64_t kWidth = 4;
constexpr uint64_t kIds = 4;  // ids in an example
constexpr uint64_t kExamples = 64 * kBatch;

// Draws ids, a few of them often and most never. Adds up the occurrences in `counts`.
std::vector<float> DrawIds(uint64_t examples, std::vector<float>& counts) {
  std::mt19937 random(7);
  std::vector<float> ids;
  counts.assign(kRows, 0);
  for (uint64_t i = 0; i < examples * kIds; ++i) {
    const uint64_t id = random() % 2 == 0 ? random() % 10 : random() % kRows;
    ids.push_back(static_cast<float>(id));
    ++counts[id];
  }
  return ids;
}

json LayerOf(const std::string& class_name, const json& config) {
  return {{"class_name", class_name}, {"config", config}};
}

json IdModel(bool mask, const std::vector<json>& rest) {
  std::vector<json> layers = {
      LayerOf("InputLayer", {{"name", "id"}, {"dtype", "int64"}, {"batch_shape", {nullptr, kIds}}}),
      LayerOf("Embedding", {{"name", "rows"},
                            {"input_dim", kRows},
                            {"output_dim", kWidth},
                            {"mask_zero", mask},
                            {"embeddings_initializer", mask ? "random_uniform" : "zeros"}})};
  layers.insert(layers.end(), rest.begin(), rest.end());
  return {{"class_name", "Sequential"}, {"config", {{"name", "ids"}, {"layers", layers}}}};
}

json FilesOf(const std::string& name) {
  return {{"format", "npy"}, {"features", name + "-ids.npy"}, {"labels", name + "-want.npy"}};
}

// A job in which each occurrence of an id adds 1 to each element of the id's row.
json RowCountingJob(uint64_t epochs) {
  return {{"epochs", epochs},
          {"model", IdModel(false, {LayerOf("Flatten", {{"name", "all"}})})},
          {"data", {{"train", FilesOf("train")}, {"test", FilesOf("test")}}},
          {"metrics", {"mean_absolute_error"}},
          {"optimizer", {{"name", "sgd"}, {"learning_rate", kBatch * kIds * kWidth}}}};
}

std::vector<float> WriteIds(const std::string& dir, uint64_t width, float want) {
  std::vector<float> counts, unused;
  for (const char* name : {"train", "test"}) {
    const bool train = std::string(name) == "train";
    const uint64_t examples = train ? kExamples : 5 * kBatch;
    WriteNpy(absl::StrCat(dir, "/", name, "-ids.npy"), {examples, kIds},
             DrawIds(examples, train ? counts : unused));
    WriteNpy(absl::StrCat(dir, "/", name, "-want.npy"), {examples, width},
             std::vector<float>(examples * width, want));
  }
  return counts;
}

// Returns whether the first variable is a table in the newest checkpoint.
bool HasTable(const std::string& dir) {
  AllFiles files;
  const auto manifest = ReadManifest(files, NewestCheckpoint(dir));
  return manifest.ok() && manifest->variables[0].has_table();
}

void CheckRowsCounted(const Cluster& cluster, const std::vector<float>& counts, uint64_t epochs) {
  CHECK(HasTable(cluster.dir()));
  const std::vector<float> values = NewestValues(cluster.dir());
  REQUIRE(values.size() == kRows * kWidth);
  uint64_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    wrong += values[i] == static_cast<float>(epochs) * counts[i / kWidth] ? 0 : 1;
  }
  CHECK(wrong == 0);
  // The test ids are the first ids of the training data.
  std::vector<float> test;
  double sum = 0;
  const std::vector<float> ids = DrawIds(5 * kBatch, test);
  for (const float id : ids) sum += static_cast<double>(values[static_cast<size_t>(id) * kWidth]);
  const json metrics = cluster.Summary().at("metrics").at("test");
  INFO(TextOf(cluster.Summary(), 2));
  CHECK(metrics.at("mean_absolute_error").get<double>() ==
        Approx(static_cast<double>(kTarget) - sum / static_cast<double>(ids.size())).epsilon(1e-9));
}

// Commands that read a checkpoint find whole tables.
void CheckCommands(const Cluster& cluster) {
  for (const std::string command :
       {"export --dir dir --out values.safetensors", "evaluate job.json --dir dir",
        "checkpoint verify --dir dir", "validate job.json"}) {
    const std::string log = cluster.root() + "/command.log";
    WriteText(log, "");
    Process process({"/bin/sh", "-c", "cd " + cluster.root() + " && paracord " + command},
                    {{"PATH", PARACORD_BIN_DIR ":/usr/bin:/bin"}}, log);
    const auto code = process.Wait(60000);
    INFO(command << ": " << ReadText(log));
    CHECK(code == 0);
  }
}

TEST_CASE("each row of a table has the occurrences of its id, whatever is killed") {
  const bool overlap = GENERATE(false, true);
  CAPTURE(overlap);
  constexpr uint64_t kEpochs = 12;
  json job = RowCountingJob(kEpochs);
  job["overlap"] = overlap;
  // Writes delta checkpoints, and restores from them.
  if (overlap) job["checkpoint"] = {{"every_seconds", 0.1}, {"keep", 2}, {"full_every", 50}};
  Cluster cluster({.ps = 2, .workers = 2, .tcp = overlap, .batch_ms = 5, .job = job});
  const std::vector<float> counts = WriteIds(cluster.root(), kIds * kWidth, kTarget);
  cluster.StartAll();
  REQUIRE(cluster.WaitForBatches(1));
  std::mt19937 random(11);
  for (const char* task : {"worker:0", "ps:1", "coordinator", "ps:0", "worker:1", "ps:0"}) {
    const int64_t until = NowMs() + static_cast<int64_t>(random() % 500);
    WaitUntil(10000, [&] { return cluster.Supervise().empty() && NowMs() >= until; });
    if (cluster.at(task).running()) cluster.at(task).Signal(SIGKILL);
  }
  CHECK(cluster.Finish(120000) == 0);
  CheckRowsCounted(cluster, counts, kEpochs);
  CheckCommands(cluster);
}

// Trains with one worker and two ps, and returns the final values.
std::vector<float> Trained(const json& optimizer, const json& tables, const json& more) {
  json job = {{"epochs", 1},
              {"model", IdModel(true, {LayerOf("GlobalAveragePooling1D", {{"name", "mean"}}),
                                       LayerOf("Dense", {{"name", "out"}, {"units", 1}})})},
              {"data", {{"train", FilesOf("train")}}},
              {"loss", "mean_squared_error"},
              {"optimizer", optimizer},
              {"tables", tables}};
  job.merge_patch(more);
  Cluster cluster({.ps = 2, .workers = 1, .job = job});
  WriteIds(cluster.root(), 1, 0.25f);
  cluster.StartAll();
  REQUIRE(cluster.Finish() == 0);
  CHECK(HasTable(cluster.dir()) == (tables == "auto"));
  return NewestValues(cluster.dir());
}

TEST_CASE("rows alone give the numbers of whole tables, to the bit") {
  const json optimizer = GENERATE(json{{"name", "sgd"}, {"learning_rate", 0.1}},
                                  json{{"name", "adagrad"}, {"learning_rate", 0.1}});
  const json more = GENERATE(json::object(), json{{"wire", "bf16"}}, json{{"accumulate", 2}},
                             json{{"overlap", true}, {"split_batches", 64}});
  INFO(TextOf(optimizer) << TextOf(more));
  const std::vector<float> rows = Trained(optimizer, "auto", more);
  const std::vector<float> whole = Trained(optimizer, "off", more);
  REQUIRE(rows.size() == kRows * kWidth + kWidth + 1);
  const bool same = rows == whole;  // a failure must not print the rows
  CHECK(same);
}

}  // namespace
}  // namespace paracord::e2e
