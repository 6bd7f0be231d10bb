// The bytes that synchronous training leads to, through real processes: values, slots and ledgers
// are those of the job, whatever the number of workers and ps, and whatever is killed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "common/mix.h"
#include "common/sha256.h"
#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "e2e/kills.h"
#include "objects/all_files.h"
#include "storage/checkpoint.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

constexpr uint64_t kBitsExamples = 10 * kBatch + 5;  // the last batch is smaller
constexpr uint64_t kBatches = 11;                    // of an epoch, in three rounds

json Layer(const std::string& class_name, const json& config) {
  return {{"class_name", class_name}, {"config", config}};
}

json Sequential(const std::vector<json>& layers) {
  return {{"class_name", "Sequential"}, {"config", {{"name", "bits"}, {"layers", layers}}}};
}

// The job of a model whose one output is trained on numbers.
json BitsJob(const std::vector<json>& layers, const json& optimizer) {
  return {{"model", Sequential(layers)},
          {"data",
           {{"train", {{"format", "npy"}, {"features", "bits-x.npy"}, {"labels", "bits-y.npy"}}}}},
          {"consistency", "sync"},
          {"round_batches", 4},
          {"split_batches", nullptr},
          {"threads", 1},
          {"shuffle", true},
          {"loss", "mean_squared_error"},
          {"optimizer", optimizer},
          {"failures", {{"deaths_per_batch", 50}}},
          {"checkpoint", {{"every_seconds", 0.2}, {"keep", 2}, {"full_every", 1}}}};
}

std::vector<float> RandomFloats(uint64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 2001) / 1000 - 1;
  return values;
}

struct BitsCase {
  json job;
  std::vector<uint64_t> shape;  // of an example
  bool ids = false;             // which its numbers are
};

void WriteBitsData(const std::string& root, const BitsCase& of) {
  std::vector<uint64_t> shape = {kBitsExamples};
  shape.insert(shape.end(), of.shape.begin(), of.shape.end());
  uint64_t count = 1;
  for (const uint64_t axis : shape) count *= axis;
  if (of.ids) {
    std::mt19937 random(3);
    std::vector<uint64_t> ids(count);
    for (uint64_t& id : ids) id = Mix64(random() % (random() % 2 == 0 ? 10 : 300));
    WriteNpy(root + "/bits-x.npy", shape, ids);
  } else {
    WriteNpy(root + "/bits-x.npy", shape, RandomFloats(count, 1));
  }
  WriteNpy(root + "/bits-y.npy", {kBitsExamples, 1}, RandomFloats(kBitsExamples, 2));
}

// The rows of a growing table's partition by their ids, with which they begin: where they lie in a
// file is nobody's business.
std::string RowsById(const std::string& words, const TableMetadata& table, uint64_t row_elements) {
  const uint64_t bytes = RecordWords(table, row_elements) * sizeof(float);
  REQUIRE(words.size() % bytes == 0);
  std::map<uint64_t, std::string> rows;
  for (size_t at = 0; at < words.size(); at += bytes) {
    uint64_t id = 0;
    std::memcpy(&id, words.data() + at, sizeof id);
    rows[id] = words.substr(at, bytes);
  }
  std::string sorted;
  for (const auto& [id, row] : rows) sorted += row;
  return sorted;
}

uint64_t ElementsOfRow(const VariableSpec& variable) {
  uint64_t elements = 1;
  for (int axis = 1; axis < variable.shape_size(); ++axis) elements *= variable.shape(axis);
  return elements;
}

// Returns the SHA-256 of all that a job's last checkpoint has of its partitions.
std::string BitsOf(const std::string& dir) {
  AllFiles files;
  const std::string newest = NewestCheckpoint(dir);
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, newest);
  INFO(newest << ": " << manifest.status());
  REQUIRE(manifest.ok());
  CHECK(manifest->complete);
  std::vector<uint32_t> ids;
  for (const ManifestPartition& partition : manifest->partitions) {
    CHECK_FALSE(partition.delta);
    ids.push_back(partition.spec.id());
  }
  std::map<std::pair<size_t, std::string>, std::vector<float>> tensors;
  const auto partitions =
      ReadPartitions(files, newest, *manifest, ids,
                     [&](size_t index, std::string_view slot, uint64_t elements) -> TensorPlace {
                       std::vector<float>& place = tensors[{index, std::string(slot)}];
                       place.resize(elements);
                       return {PlacedIn<float>(place)};
                     });
  INFO(partitions.status());
  REQUIRE(partitions.ok());
  std::string all;
  for (const auto& [at, values] : tensors) {
    const auto& [index, slot] = at;
    if (slot == kCandidatesSlot) continue;
    std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    const PartitionSpec& spec = manifest->partitions[index].spec;
    const auto& table = (*partitions)[index].table;
    if (slot == kRowsSlot && table.has_value()) {
      const auto variable = static_cast<size_t>(spec.variable());
      bytes = RowsById(bytes, *table, ElementsOfRow(manifest->variables[variable]));
    }
    absl::StrAppend(&all, spec.name(), "/", slot, ":", bytes.size(), ":", bytes);
  }
  for (const StoredPartition& partition : *partitions) {
    absl::StrAppend(&all, partition.updates, ":", LedgerToText(partition.ledger));
  }
  return Sha256Hex(all);
}

std::string BitsOfRun(const BitsCase& of, uint32_t ps, uint32_t workers, int kills,
                      const std::string& device = "cpu") {
  json job = of.job;
  job["epochs"] = kills > 0 ? 60 : 4;
  Cluster cluster(
      {.ps = ps, .workers = workers, .batch_ms = kills > 0 ? 5 : 0, .device = device, .job = job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  if (kills > 0) {
    REQUIRE(cluster.WaitForBatches(1));
    Kills how{{"coordinator"}, kills, 60 * kBatches, 500};
    for (uint32_t i = 0; i < ps; ++i) how.tasks.push_back(absl::StrCat("ps:", i));
    for (uint32_t i = 0; i < workers; ++i) how.tasks.push_back(absl::StrCat("worker:", i));
    KillAtRandom(cluster, how);
  }
  REQUIRE(cluster.Finish(120000) == 0);
  return BitsOf(cluster.dir());
}

BitsCase Perceptron() {
  return {BitsJob({Layer("InputLayer", {{"batch_shape", {nullptr, 12}}}),
                   Layer("Dense", {{"name", "hidden"}, {"units", 16}, {"activation", "relu"}}),
                   Layer("BatchNormalization", {{"name", "even"}, {"momentum", 0.9}}),
                   Layer("Dropout", {{"name", "drop"}, {"rate", 0.3}}),
                   Layer("Dense", {{"name", "out"}, {"units", 1}})},
                  {{"name", "adam"}, {"learning_rate", 0.01}}),
          {12}};
}

BitsCase Convolution() {
  return {BitsJob({Layer("InputLayer", {{"batch_shape", {nullptr, 8, 8, 1}}}),
                   Layer("Conv2D", {{"name", "filters"},
                                    {"filters", 4},
                                    {"kernel_size", {3, 3}},
                                    {"activation", "relu"}}),
                   Layer("MaxPooling2D", {{"name", "pool"}, {"pool_size", {2, 2}}}),
                   Layer("Flatten", {{"name", "flat"}}),
                   Layer("Dense", {{"name", "out"}, {"units", 1}})},
                  {{"name", "sgd"}, {"learning_rate", 0.05}, {"momentum", 0.9}}),
          {8, 8, 1}};
}

BitsCase GrowingTable() {
  BitsCase of{
      BitsJob(
          {Layer("InputLayer", {{"name", "id"}, {"dtype", "int64"}, {"batch_shape", {nullptr, 4}}}),
           Layer("Embedding", {{"name", "user"}, {"input_dim", 1}, {"output_dim", 8}}),
           Layer("Flatten", {{"name", "flat"}}), Layer("Dense", {{"name", "out"}, {"units", 1}})},
          {{"name", "adam"}, {"learning_rate", 0.01}}),
      {4},
      /*ids=*/true};
  of.job["tables"] = {
      {"user",
       {{"kind", "growing"}, {"update", "lazy"}, {"shards", 5}, {"expire", {{"batches", 40}}}}}};
  return of;
}

void CheckSameBits(const BitsCase& of) {
  const std::string alone = BitsOfRun(of, 1, 1, 0);
  for (const auto& [ps, workers] : {std::pair(1u, 2u), std::pair(2u, 1u), std::pair(2u, 2u)}) {
    CAPTURE(ps, workers);
    CHECK(BitsOfRun(of, ps, workers, 0) == alone);
  }
}

void CheckSameBitsWhateverIsKilled(const BitsCase& of) {
  // Two longer runs.
  const std::string killed = BitsOfRun(of, 2, 2, 10);
  CHECK(killed == BitsOfRun(of, 1, 2, 1));
}

TEST_CASE(
    "a perceptron with moving averages and dropout trained synchronously has the bits of its job") {
  CheckSameBits(Perceptron());
}

TEST_CASE("a convolution trained synchronously has the bits of its job") {
  CheckSameBits(Convolution());
}

TEST_CASE("a growing table trained synchronously has the bits of its job") {
  CheckSameBits(GrowingTable());
}

TEST_CASE("synchronous training has the same bits where lanes are computed by a second worker") {
  BitsCase of = Perceptron();
  const std::string without = BitsOfRun(of, 1, 1, 0);
  of.job["backup"] = {{"factor", 1.1}};
  of.job["epochs"] = 4;
  Cluster cluster({.ps = 2, .workers = 2, .job = of.job});
  WriteBitsData(cluster.root(), of);
  for (const char* task : {"ps:0", "ps:1", "coordinator", "worker:0"}) cluster.Start(task);
  cluster.Start("worker:1", {{"PARACORD_FAILPOINTS", "worker.computed=stall:150"}});
  REQUIRE(cluster.Finish(120000) == 0);
  CHECK(BitsOf(cluster.dir()) == without);
}

// R is 4, so four lanes of one worker are one run.
void CheckSameBitsOnDevices(BitsCase of) {
  const std::string alone = BitsOfRun(of, 1, 4, 0);
  for (const char* ops : {"hierarchical_copy", "reduction_to_one_device"}) {
    of.job["cross_device_ops"] = ops;
    for (const char* device : {"cpu:1", "cpu:2", "cpu:4"}) {
      CAPTURE(ops, device);
      CHECK(BitsOfRun(of, 2, 1, 0, device) == alone);
    }
  }
  CHECK(BitsOfRun(of, 1, 2, 0, "cpu:2") == alone);
  CHECK(BitsOfRun(of, 1, 2, 0, "cpu:3") == alone);
}

TEST_CASE("synchronous training has the same bits on any number of devices of a worker") {
  SECTION("perceptron") { CheckSameBitsOnDevices(Perceptron()); }
  SECTION("convolution") { CheckSameBitsOnDevices(Convolution()); }
  SECTION("growing table") { CheckSameBitsOnDevices(GrowingTable()); }
  SECTION("values in 16 bits, for which no lanes are added up by workers") {
    BitsCase of = Perceptron();
    of.job["wire"] = "bf16";
    const std::string alone = BitsOfRun(of, 1, 2, 0);
    CHECK(BitsOfRun(of, 2, 1, 0, "cpu:4") == alone);
  }
}

TEST_CASE("a worker with several devices has the bits of its job whatever is killed") {
  const BitsCase of = GENERATE(Perceptron(), GrowingTable());
  CHECK(BitsOfRun(of, 2, 2, 10, "cpu:2") == BitsOfRun(of, 1, 1, 1, "cpu:4"));
}

TEST_CASE("a bounded staleness has lanes on all devices of a worker, and async is refused them") {
  BitsCase of = Perceptron();
  of.job["epochs"] = 2;
  of.job["consistency"] = {{"staleness", 1}};
  {
    Cluster cluster({.ps = 1, .workers = 1, .device = "cpu:4", .job = of.job});
    WriteBitsData(cluster.root(), of);
    cluster.StartAll();
    CHECK(cluster.Finish(120000) == 0);
    CHECK(cluster.BatchesDone() == 2 * kBatches);
  }
  of.job["consistency"] = "async";
  of.job["round_batches"] = nullptr;
  Cluster cluster({.ps = 1, .workers = 1, .device = "cpu:2", .job = of.job});
  WriteBitsData(cluster.root(), of);
  cluster.StartAll();
  CHECK(cluster.at("worker:0").Wait(60000) == static_cast<int>(ExitCode::kConfiguration));
  CHECK(cluster.Logged("worker:0", "--device cpu:2: several devices compute the lanes of a round"));
}

TEST_CASE("synchronous training has the same bits whatever is killed") {
  SECTION("perceptron") { CheckSameBitsWhateverIsKilled(Perceptron()); }
  SECTION("growing table") { CheckSameBitsWhateverIsKilled(GrowingTable()); }
}

}  // namespace
}  // namespace paracord::e2e
