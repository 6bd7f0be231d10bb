#include "e2e/counting_job.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "e2e/process.h"
#include "objects/all_files.h"
#include "storage/checkpoint.h"

namespace paracord::e2e {
namespace {

using nlohmann::json;

json Model() {
  json input = {{"class_name", "InputLayer"}, {"config", {{"batch_shape", {nullptr, 2}}}}};
  json dense = {
      {"class_name", "Dense"},
      {"config", {{"name", "count"}, {"units", kUnits}, {"kernel_initializer", "zeros"}}}};
  return {{"class_name", "Sequential"},
          {"config", {{"name", "model"}, {"layers", {input, dense}}}}};
}

void WriteData(const std::string& dir, const std::string& name, uint64_t records) {
  WriteNpy(absl::StrCat(dir, "/", name, "-x.npy"), {records, 2}, std::vector<float>(records * 2));
  WriteNpy(absl::StrCat(dir, "/", name, "-y.npy"), {records, kUnits},
           std::vector<float>(records * kUnits, kTarget));
}

json Npy(const std::string& name) {
  return {{"format", "npy"}, {"features", name + "-x.npy"}, {"labels", name + "-y.npy"}};
}

template <class T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void WriteNpyBytes(const std::string& path, const std::vector<uint64_t>& shape, const char* type,
                   std::string_view values) {
  std::string axes;
  for (const uint64_t axis : shape) absl::StrAppend(&axes, axis, ", ");
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", axes, "), }");
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  WriteText(path, text.append(values));
}

absl::StatusOr<Manifest> NewestManifest(const std::string& dir) {
  AllFiles files;
  return ReadManifest(files, NewestCheckpoint(dir));
}

}  // namespace

void WriteNpy(const std::string& path, const std::vector<uint64_t>& shape,
              const std::vector<float>& values) {
  WriteNpyBytes(path, shape, "<f4", BytesOf(values));
}

void WriteNpy(const std::string& path, const std::vector<uint64_t>& shape,
              const std::vector<uint64_t>& values) {
  WriteNpyBytes(path, shape, "<i8", BytesOf(values));
}

std::string WriteCountingJob(const std::string& dir, const json& patch) {
  WriteData(dir, "train", kRecords);
  WriteData(dir, "test", kTestRecords);
  json job = {{"name", "counting"},
              {"model", Model()},
              {"data", {{"train", Npy("train")}}},
              {"batch", kBatch},
              {"split_batches", 8},
              {"consistency", "async"},  // nodes would default to "sync"
              {"loss", "mean_absolute_error"},
              {"optimizer", {{"name", "sgd"}, {"learning_rate", kUnits}}},
              {"failures", {{"per_batch", 50}}},
              {"timeouts",
               {{"start_s", 60},
                {"worker_ms", 2000},
                {"ps_ms", 2000},
                {"ps_return_s", 60},
                {"orphan_ms", 60000},
                {"drain_ms", 10000}}},
              {"partitioner", {{"kind", "fixed_shards"}, {"shards", 5}}},
              {"checkpoint", {{"every_seconds", 0.5}, {"keep", 3}}}};
  job.merge_patch(patch);
  if (patch.contains("evaluate")) {
    job["data"]["test"] = Npy("test");
    job["metrics"] = {"mean_absolute_error"};
  }
  std::string path = dir + "/job.json";
  WriteText(path, TextOf(job, 2));
  return path;
}

void SpoilRecord(const std::string& dir, uint64_t record) {
  std::vector<float> values(kRecords * kUnits, kTarget);
  values[record * kUnits + 3] = std::numeric_limits<float>::quiet_NaN();
  WriteNpy(dir + "/train-y.npy", {kRecords, kUnits}, values);
}

std::string NewestCheckpoint(const std::string& dir) {
  AllFiles files;
  const auto names = ListCheckpoints(files, dir + "/checkpoints");
  if (!names.ok() || names->empty()) return "";
  return absl::StrCat(dir, "/checkpoints/", names->front().ToString());
}

std::vector<float> NewestValues(const std::string& dir) {
  AllFiles files;
  const absl::StatusOr<Manifest> manifest = NewestManifest(dir);
  INFO(manifest.status());
  REQUIRE(manifest.ok());
  const auto variables = ReadVariables(files, NewestCheckpoint(dir), *manifest);
  INFO(variables.status());
  REQUIRE(variables.ok());
  std::vector<float> all;
  for (const std::vector<float>& values : *variables) {
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void CheckCounted(const std::string& dir, uint64_t batches, uint64_t rejected,
                  std::optional<uint64_t> updates) {
  const absl::StatusOr<Manifest> manifest = NewestManifest(dir);
  INFO(manifest.status());
  REQUIRE(manifest.ok());
  CHECK(manifest->complete);
  CHECK(manifest->partitions.size() >= 4);  // five of the bias, two of the kernel
  for (const ManifestPartition& partition : manifest->partitions) {
    CHECK(partition.applied == batches);
    CHECK(partition.rejected == rejected);
  }
  const std::vector<float> values = NewestValues(dir);
  REQUIRE(values.size() == 3 * kUnits);
  const auto count = static_cast<float>(updates.value_or(batches));
  CHECK(std::count(values.begin(), values.end(), count) == int64_t{kUnits});
  CHECK(std::count(values.begin(), values.end(), 0.f) == int64_t{2 * kUnits});
  AllFiles files;
  const absl::StatusOr<std::string> text = files.ReadWhole(dir + "/summary.json");
  REQUIRE(text.ok());
  const json summary = JsonOf(*text);
  REQUIRE(summary.is_object());
  INFO(TextOf(summary, 2));
  CHECK(summary.at("status") == "done");
  const json& ledger = summary.at("ledger");
  CHECK(ledger.at("batches") == batches + rejected);
  CHECK(ledger.at("applied_min") == batches);
  CHECK(ledger.at("applied_max") == batches);
  CHECK(ledger.at("rejected") == rejected);
}

}  // namespace paracord::e2e
