// A chain of checkpoints of a growing table, written as by a ps and its coordinator.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"
#include "tests/fakes.h"

namespace paracord {

class StoredChain {
 public:
  using Rows = std::multimap<uint64_t, float>;  // id -> value of each element

  explicit StoredChain(uint64_t dim) {
    manifest_.job_name = "chain";
    manifest_.job_json = R"({"name": "chain"})";
    manifest_.run_id = "00112233445566778899aabbccddeeff";
    manifest_.plan.set_records(1000);
    manifest_.plan.set_batch(10);
    manifest_.plan.set_split_batches(5);
    VariableSpec& variable = manifest_.variables.emplace_back();
    variable.set_name("user/embeddings");
    variable.add_shape(1);
    variable.add_shape(dim);
    variable.set_dtype(FLOAT32);
    variable.set_trainable(true);
    variable.mutable_initializer()->set_name("zeros");
    variable.mutable_table()->set_kind(TableSpec::GROWING);
    PartitionSpec& spec = manifest_.partitions.emplace_back().spec;
    spec.set_name("user/embeddings/part_0");
    spec.set_row_end(1);
    manifest_.files = {{PsFileName(0, 1), 0, 0, "boot"}};
  }

  // Writes the next checkpoint and returns its name. The first checkpoint is full; each later one
  // continues its predecessor. `count`: rows of the table afterwards.
  std::string Add(const Rows& rows, const std::vector<uint64_t>& removed, uint64_t count) {
    manifest_.base = std::exchange(full_, false) ? "" : manifest_.name.ToString();
    const bool delta = !manifest_.base.empty();
    const uint64_t before = updates_;
    updates_ += 10;
    manifest_.name = {.step = updates_, .generation = 1, .round = manifest_.name.round + 1};
    ManifestPartition& partition = manifest_.partitions[0];
    partition.updates = partition.applied = updates_;
    partition.delta = delta;
    TableMetadata table;
    table.now = static_cast<uint32_t>(updates_ - 1);
    if (delta) table.since = {static_cast<uint32_t>(before - 1), before, manifest_.base};
    table.rows = count;
    REQUIRE(Write(rows, removed, table).ok());
    return manifest_.name.ToString();
  }
  // Makes later checkpoints wrong: the tensor `removed` is missing if required, and present if not.
  void MistakeRemoved() { mistaken_ = true; }
  // Makes the next checkpoint full.
  void BeginFull() { full_ = true; }
  std::string Path(const std::string& name) const { return checkpoints() + "/" + name; }
  std::string PartOf(const std::string& name) const { return Path(name) + "/" + PsFileName(0, 1); }
  std::string dir() const { return directory_ / "job"; }
  std::string checkpoints() const { return CheckpointsDirectory(dir()); }
  Manifest ManifestOf(const std::string& name) { return *ReadManifest(files_, Path(name)); }
  // Replaces the manifest of a checkpoint.
  void Put(const std::string& name, const Manifest& manifest) {
    const std::string path = Path(name) + "/" + kManifestName;
    REQUIRE(files_.WriteAtomic(path, ManifestToText(manifest)).ok());
  }
  // Changes a byte of a checkpoint that only the checksum covers.
  void Damage(const std::string& name) {
    std::string text = *files_.ReadWhole(PartOf(name));
    text.back() = static_cast<char>(text.back() ^ 4);
    REQUIRE(Overwrite(files_, PartOf(name), text));
  }

 private:
  absl::Status Write(const Rows& rows, const std::vector<uint64_t>& removed,
                     const TableMetadata& table) {
    const uint64_t dim = manifest_.variables[0].shape(1), words = RecordWords(table, dim);
    std::vector<float> records(rows.size() * words), ids(removed.size() * 2);
    size_t at = 0;
    for (const auto& [id, value] : rows) {
      std::memcpy(&records[at], &id, sizeof id);
      std::memcpy(&records[at + 2], &table.now, sizeof table.now);
      std::fill_n(records.begin() + static_cast<int64_t>(at) + 3, dim, value);
      at += words;
    }
    if (!removed.empty())
      std::memcpy(ids.data(), removed.data(), removed.size() * sizeof(uint64_t));
    Ledger ledger;
    ledger.set_applied(updates_);
    const std::string text = LedgerToText(ledger);
    const std::string& name = manifest_.partitions[0].spec.name();
    std::vector<TensorInfo> tensors = {
        {.name = SlotTensorName(name, kRowsSlot), .dtype = "U8", .shape = {rows.size(), words * 4}},
        {.name = SlotTensorName(name, kRemovedSlot), .dtype = "U8", .shape = {removed.size(), 8}},
        {.name = LedgerTensorName(name), .dtype = "U8", .shape = {text.size()}}};
    const bool with_removed = table.since.has_value() != mistaken_;
    if (!with_removed) tensors.erase(tensors.begin() + 1);
    const PsFileIdentity identity{.run_id = manifest_.run_id,
                                  .generation = manifest_.name.generation,
                                  .round = manifest_.name.round,
                                  .ps = 0,
                                  .ps_count = 1,
                                  .boot_id = "boot"};
    const std::string checkpoint = manifest_.name.ToString();
    RETURN_IF_ERROR(files_.MakeDirectories(Path(checkpoint)));
    ASSIGN_OR_RETURN(
        const std::unique_ptr<SafetensorsWriter> writer,
        SafetensorsWriter::Create(
            files_, PartOf(checkpoint), tensors,
            PsFileMetadata(identity, {{name, {.updates = updates_, .table = table}}})));
    RETURN_IF_ERROR(writer->Append(records));
    if (with_removed) RETURN_IF_ERROR(writer->Append(ids));
    RETURN_IF_ERROR(writer->Append(text));
    RETURN_IF_ERROR(writer->Finish());
    manifest_.files[0].bytes = writer->bytes();
    manifest_.files[0].crc32c = writer->crc32c();
    return files_.WriteAtomic(Path(checkpoint) + "/" + kManifestName, ManifestToText(manifest_));
  }

  TestDirectory directory_;
  PosixFiles files_;
  Manifest manifest_;
  uint64_t updates_ = 0;
  bool full_ = true, mistaken_ = false;
};

}  // namespace paracord
