// A small but complete job in a temporary directory: three images of 2 x 2 bytes as training and
// test data, a model with one dense layer, and checkpoints.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "config/job.h"
#include "config/partitions.h"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"
#include "tests/fakes.h"

namespace paracord {

class ExampleJob {
 public:
  ExampleJob() {
    Write("x", std::string("\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x02", 16) + "abcdefghijkl");
    Write("y", std::string("\0\0\x08\x01\0\0\0\x03\0\x01\x02", 11));
    Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "in"}},
        {"class_name": "Flatten", "config": {"name": "flatten"}},
        {"class_name": "Dense", "config": {"name": "dense", "units": 3}}]}})");
    Write("job.json", R"({"model": "model.json", "batch": 2, "data": {
        "train": {"format": "idx", "features": "x", "labels": "y"},
        "test": {"format": "idx", "features": "x", "labels": "y"}},
        "loss": {"name": "sparse_categorical_crossentropy", "from_logits": true},
        "metrics": ["accuracy"], "optimizer": {"name": "sgd", "learning_rate": 0.5}})");
    const absl::StatusOr<Job> read = ReadJobFile(files, path("job.json"));
    INFO(read.status().ToString());
    REQUIRE(read.ok());
    job = *read;
  }

  std::string path(const std::string& name) const { return directory / name; }
  std::string Checkpoint(const std::string& name) const { return path("checkpoints/" + name); }
  void Write(const std::string& name, const std::string& bytes) {
    REQUIRE(Overwrite(files, path(name), bytes));
  }
  // Flips a bit near the end of a checkpoint's file.
  void Damage(const std::string& checkpoint, const std::string& file) {
    const std::string where = Checkpoint(checkpoint) + "/" + file;
    std::string bytes = *files.ReadWhole(where);
    bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 4);
    REQUIRE(Overwrite(files, where, bytes));
  }

  struct Options {
    bool complete = false;
    bool healthy = true;
    uint64_t rejected = 0;
    float bias = 0;  // bias of class 0; all other values are 0
    nlohmann::json summary = nullptr;
  };
  // Writes a checkpoint of two ps, with the kernel in two partitions. Returns its name.
  std::string Commit(uint64_t step, uint64_t round, Options options) {
    Manifest manifest;
    manifest.job_name = job.name;
    manifest.job_json = JobToJson(job);
    manifest.run_id = run_id;
    manifest.name = {.step = step, .generation = 1, .round = round};
    manifest.complete = options.complete;
    manifest.summary = options.summary;
    manifest.created_unix_ms = 1'700'000'000'000;
    manifest.plan.set_records(3);
    manifest.plan.set_test_records(3);
    manifest.plan.set_batch(2);
    manifest.plan.set_split_batches(32);
    manifest.plan.set_fingerprint("idx:3:1b9b7a432cd96dfd+idx:3:1b9b7a432cd96dfd");
    manifest.variables = {Variable("dense/kernel", {4, 3}), Variable("dense/bias", {3})};
    AddPartition(manifest, 0, 0, 0, 3, 0, options);
    AddPartition(manifest, 0, 1, 3, 4, 1, options);
    AddPartition(manifest, 1, 0, 0, 3, 1, options);
    std::string name = manifest.name.ToString();
    REQUIRE(files.MakeDirectories(Checkpoint(name)).ok());
    for (uint32_t ps = 0; ps < 2; ++ps) WritePsFile(manifest, ps, options);
    REQUIRE(
        files.WriteAtomic(Checkpoint(name) + "/" + kManifestName, ManifestToText(manifest)).ok());
    return name;
  }

  TestDirectory directory;
  PosixFiles files;
  Job job;
  std::string run_id = "00112233445566778899aabbccddeeff";

 private:
  static VariableSpec Variable(const std::string& name, std::vector<uint64_t> shape) {
    VariableSpec variable;
    variable.set_name(name);
    for (const uint64_t dimension : shape) variable.add_shape(dimension);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(true);
    variable.mutable_initializer()->set_name("zeros");
    return variable;
  }

  static void AddPartition(Manifest& manifest, uint32_t variable, uint32_t part, uint64_t begin,
                           uint64_t end, uint32_t ps, const Options& options) {
    ManifestPartition partition;
    partition.spec.set_id(static_cast<uint32_t>(manifest.partitions.size()));
    partition.spec.set_variable(variable);
    partition.spec.set_name(manifest.variables[variable].name() + "/part_" + std::to_string(part));
    partition.spec.set_row_begin(begin);
    partition.spec.set_row_end(end);
    partition.spec.set_ps(ps);
    partition.updates = partition.applied = manifest.name.step;
    partition.rejected = options.rejected;
    partition.healthy = options.healthy;
    manifest.partitions.push_back(partition);
  }

  void WritePsFile(Manifest& manifest, uint32_t ps, const Options& options) {
    std::vector<TensorInfo> tensors;
    std::map<std::string, PartitionMetadata> metadata;
    std::vector<float> data;
    std::vector<std::pair<std::string, std::string>> ledgers;
    for (const ManifestPartition& partition : manifest.partitions) {
      if (partition.spec.ps() != ps) continue;
      const VariableSpec& variable = manifest.variables[partition.spec.variable()];
      tensors.push_back(
          {.name = partition.spec.name(), .shape = PartitionShape(variable, partition.spec)});
      data.resize(data.size() + PartitionElements(variable, partition.spec));
      if (variable.name() == "dense/bias") data[data.size() - 3] = options.bias;
      metadata[partition.spec.name()].updates = partition.updates;
      metadata[partition.spec.name()].healthy = partition.healthy;
      Ledger ledger;
      ledger.set_applied(partition.applied);
      ledgers.push_back({LedgerTensorName(partition.spec.name()), LedgerToText(ledger)});
    }
    for (const auto& [name, text] : ledgers) {
      tensors.push_back({.name = name, .dtype = "U8", .shape = {text.size()}});
    }
    ManifestFile file{.name = PsFileName(ps, 2), .boot_id = "boot"};
    const PsFileIdentity identity{.run_id = manifest.run_id,
                                  .generation = manifest.name.generation,
                                  .round = manifest.name.round,
                                  .ps = ps,
                                  .ps_count = 2,
                                  .boot_id = file.boot_id};
    auto writer =
        SafetensorsWriter::Create(files, Checkpoint(manifest.name.ToString()) + "/" + file.name,
                                  tensors, PsFileMetadata(identity, metadata));
    REQUIRE(writer.ok());
    REQUIRE((*writer)->Append(data).ok());
    for (const auto& [name, text] : ledgers) REQUIRE((*writer)->Append(text).ok());
    REQUIRE((*writer)->Finish().ok());
    file.bytes = (*writer)->bytes();
    file.crc32c = (*writer)->crc32c();
    manifest.files.push_back(file);
  }
};

}  // namespace paracord
