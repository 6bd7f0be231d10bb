// Large variables: more bytes than 32 bits count, and more than a worker's memory holds.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "e2e/cluster.h"
#include "e2e/counting_job.h"
#include "storage/checkpoint.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

json LargeLayer(const std::string& kind, const json& config) {
  return {{"class_name", kind}, {"config", config}};
}

TEST_CASE("a variable of more than 4 GiB is trained over TCP and through shared memory",
          "[.slow]") {
  const bool tcp = GENERATE(false, true);
  CAPTURE(tcp);
  const json layers = {LargeLayer("InputLayer", {{"batch_shape", {nullptr, 2}}}),
                       LargeLayer("Embedding", {{"name", "large"},
                                                {"input_dim", 1100000},
                                                {"output_dim", 1000},
                                                {"embeddings_initializer", "zeros"}}),
                       LargeLayer("Flatten", {{"name", "flat"}}),
                       LargeLayer("Dense", {{"name", "count"}, {"units", kUnits}})};
  const json model = {{"class_name", "Sequential"},
                      {"config", {{"name", "model"}, {"layers", layers}}}};
  const json limits = {{"worker_ms", 60000}, {"ps_ms", 60000}, {"start_s", 300}};
  Cluster cluster({.ps = 1,
                   .workers = 1,
                   .tcp = tcp,
                   .job = {{"model", model},
                           {"steps", 2},
                           {"timeouts", limits},
                           {"partitioner", {{"kind", "fixed_shards"}, {"shards", 5}}},
                           {"checkpoint", {{"every_seconds", 0}, {"keep", 1}}}}});
  cluster.StartAll();
  REQUIRE(cluster.Finish(600000) == 0);
  const json summary = cluster.Summary();
  CAPTURE(summary.dump());
  CHECK(summary["ledger"]["applied_min"] == 2);
  CHECK(summary["ledger"]["applied_max"] == 2);
  uint64_t bytes = 0;
  PosixFiles files;
  const std::string checkpoint = NewestCheckpoint(cluster.dir());
  const auto manifest = ReadManifest(files, checkpoint);
  REQUIRE(manifest.ok());
  for (const ManifestFile& file : manifest->files) bytes += file.bytes;
  CHECK(bytes > uint64_t{1} << 32);
  CHECK(VerifyCheckpoint(files, checkpoint).ok());
}

constexpr uint64_t kTableRows = 20000000;
constexpr uint64_t kTableWidth = 16;
constexpr uint64_t kTableIds = 4;  // ids in an example
constexpr uint64_t kTableBatches = 200;

// Writes the ids of all examples. Returns the occurrences of each id.
std::map<uint64_t, float> WriteTableIds(const std::string& path) {
  std::mt19937_64 random(3);
  std::map<uint64_t, float> counts;
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < kTableBatches * kBatch * kTableIds; ++i) {
    // Half of the ids are above 2^24, where float32 cannot hold every integer.
    ids.push_back(random() % 2 == 0 ? random() % kTableRows : kTableRows - 1 - random() % 99);
    ++counts[ids.back()];
  }
  WriteNpy(path, {kTableBatches * kBatch, kTableIds}, ids);
  return counts;
}

// The table has 1.28 GB. The worker may use 300 MB.
TEST_CASE("a worker of 300 MB trains a table of 20,000,000 rows", "[.slow]") {
  const bool tcp = GENERATE(false, true);
  CAPTURE(tcp);
  const json layers = {
      LargeLayer("InputLayer", {{"dtype", "int64"}, {"batch_shape", {nullptr, kTableIds}}}),
      LargeLayer("Embedding", {{"name", "rows"},
                               {"input_dim", kTableRows},
                               {"output_dim", kTableWidth},
                               {"embeddings_initializer", "zeros"}}),
      LargeLayer("Flatten", {{"name", "all"}})};
  Cluster cluster(
      {.ps = 2,
       .workers = 1,
       .tcp = tcp,
       .job = {
           {"model",
            {{"class_name", "Sequential"}, {"config", {{"name", "model"}, {"layers", layers}}}}},
           {"data",
            {{"train", {{"format", "npy"}, {"features", "ids.npy"}, {"labels", "want.npy"}}}}},
           {"optimizer", {{"name", "sgd"}, {"learning_rate", kBatch * kTableIds * kTableWidth}}},
           {"timeouts", {{"ps_ms", 60000}, {"start_s", 300}}},
           {"checkpoint", {{"every_seconds", 0}, {"keep", 1}}}}});
  const std::map<uint64_t, float> counts = WriteTableIds(cluster.root() + "/ids.npy");
  WriteNpy(cluster.root() + "/want.npy", {kTableBatches * kBatch, kTableIds * kTableWidth},
           std::vector<float>(kTableBatches * kBatch * kTableIds * kTableWidth, kTarget));
  cluster.Start("coordinator");
  for (const char* ps : {"ps:0", "ps:1"}) cluster.Start(ps);
  cluster.Start("worker:0");
  const rlimit limit{300 << 20, 300 << 20};
  REQUIRE(prlimit(cluster.at("worker:0").pid(), RLIMIT_DATA, &limit, nullptr) == 0);
  REQUIRE(cluster.Finish(300000) == 0);
  const std::vector<float> values = NewestValues(cluster.dir());
  REQUIRE(values.size() == kTableRows * kTableWidth);
  uint64_t wrong = 0;
  for (uint64_t row = 0; row < kTableRows; ++row) {
    const auto count = counts.find(row);
    const float want = count == counts.end() ? 0 : count->second;
    for (uint64_t i = 0; i < kTableWidth; ++i)
      wrong += values[row * kTableWidth + i] == want ? 0 : 1;
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace paracord::e2e
