#include "e2e/bits_job.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/sha256.h"
#include "e2e/counting_job.h"
#include "objects/all_files.h"
#include "storage/checkpoint.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

constexpr uint64_t kBitsExamples = 10 * kBatch + 5;  // the last batch is smaller

json Layer(const std::string& class_name, const json& config) {
  return {{"class_name", class_name}, {"config", config}};
}

json Sequential(const std::vector<json>& layers) {
  return {{"class_name", "Sequential"}, {"config", {{"name", "bits"}, {"layers", layers}}}};
}

// A job with one output, trained on random numbers.
json BitsJob(const std::vector<json>& layers, const json& optimizer) {
  return {{"model", Sequential(layers)},
          {"data",
           {{"train", {{"format", "npy"}, {"features", "bits-x.npy"}, {"labels", "bits-y.npy"}}}}},
          {"consistency", "sync"},
          {"round_batches", kBitsLanes},
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

// Returns the records of a growing table's partition sorted by id. A file may have them in any
// order.
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

}  // namespace

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

}  // namespace paracord::e2e
