// Reads whole variables out of a checkpoint, and all rows that growing tables have there.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

// The rows of one partition of a growing table, as the files of a chain have them.
struct StoredRows {
  struct Link {
    std::vector<float> words;
    std::vector<float> removed;  // ids, two words each
  };
  const VariableSpec* variable = nullptr;
  TableMetadata table;
  std::vector<Link> links;  // the oldest first
  bool in_link = false;     // whether the newest of them is still being read
};

uint64_t IdAt(const std::vector<float>& words, uint64_t at) {
  uint64_t id = 0;
  std::memcpy(&id, &words[at], sizeof id);
  return id;
}

// A row that has not expired.
struct StoredRow {
  uint64_t id = 0;
  const float* values = nullptr;  // or their averages
};

void AddRows(const StoredRows& stored, std::vector<StoredRow>& rows) {
  const auto& [variable, table, links, in_link] = stored;
  constexpr uint32_t kTouched = (uint32_t{1} << 31) - 1;
  const uint64_t width = RowElements(*variable);
  const uint64_t record = RecordWords(table, width);
  const auto average = std::ranges::find(table.slots, kAverageSlot);
  const auto slot = static_cast<size_t>(average - table.slots.begin());
  const uint64_t place =
      average == table.slots.end() ? RowHeaderWords(table.steps) : SlotWord(table, slot, width);
  const uint64_t expire = variable->table().expire_batches();
  absl::flat_hash_set<uint64_t> newer;  // ids of which newer links have spoken
  for (size_t l = links.size(); l-- > 0;) {
    const auto& [words, removed] = links[l];
    for (uint64_t at = 0; at + record <= words.size(); at += record) {
      const StoredRow row{.id = IdAt(words, at), .values = &words[at + place]};
      uint32_t touched = 0;
      std::memcpy(&touched, &words[at + 2], sizeof touched);
      const bool expired = expire != 0 && ((table.now - touched) & kTouched) > expire;
      if (links.size() > 1 && !newer.insert(row.id).second) continue;
      if (!expired) rows.push_back(row);
    }
    for (uint64_t at = 0; at + 2 <= removed.size(); at += 2) newer.insert(IdAt(removed, at));
  }
}

// Puts the rows of all partitions of a variable into the order of their ids.
void SortRows(std::vector<StoredRow> rows, uint64_t width, std::vector<float>& values,
              std::vector<uint64_t>& ids) {
  std::ranges::sort(rows, {}, &StoredRow::id);
  values.reserve(rows.size() * width);
  ids.reserve(rows.size());
  for (const StoredRow& row : rows) {
    ids.push_back(row.id);
    values.insert(values.end(), row.values, row.values + width);
  }
}

// Has the memory for the tensors of a checkpoint.
class ReadingVariables {
 public:
  explicit ReadingVariables(const Manifest& manifest)
      : manifest_(manifest), values_(manifest.variables.size()) {
    for (const ManifestPartition& partition : manifest.partitions) {
      const VariableSpec& variable = manifest.variables[partition.spec.variable()];
      if (IsGrowing(variable)) continue;
      std::vector<float>& whole = values_[partition.spec.variable()];
      whole.resize(whole.size() + PartitionElements(variable, partition.spec));
    }
  }

  TensorPlace PlaceOf(uint32_t id, std::string_view slot, uint64_t elements) {
    const VariableSpec& variable = VariableOf(id);
    if (IsGrowing(variable)) {
      if (slot != kRowsSlot && slot != kRemovedSlot) return TensorPlace();
      StoredRows& rows = rows_[id];
      rows.variable = &variable;
      if (!rows.in_link) rows.links.emplace_back();
      rows.in_link = true;
      std::vector<float>& words =
          slot == kRowsSlot ? rows.links.back().words : rows.links.back().removed;
      words.resize(elements);
      return TensorPlace{words};
    }
    if (slot.empty()) return TensorPlace{Part(id)};
    if (slot != kAverageSlot) return TensorPlace();
    return TensorPlace{averages_.try_emplace(id, Part(id).size()).first->second};
  }

  // A link of a partition's chain has been read; the next one is read into memory of its own.
  void EndLink(uint32_t id) {
    if (const auto rows = rows_.find(id); rows != rows_.end()) rows->second.in_link = false;
  }

  std::vector<std::vector<float>> Take(const std::vector<StoredPartition>& stored,
                                       VariableIds* ids) {
    for (const auto& [id, average] : averages_) std::ranges::copy(average, Part(id).begin());
    if (ids != nullptr) ids->assign(values_.size(), {});
    std::map<uint32_t, std::vector<StoredRow>> rows;  // by variable
    for (auto& [id, own] : rows_) {
      own.table = stored[id].table.value_or(TableMetadata());
      AddRows(own, rows[manifest_.partitions[id].spec.variable()]);
    }
    for (auto& [v, all] : rows) {
      std::vector<uint64_t> own;
      SortRows(std::move(all), RowElements(manifest_.variables[v]), values_[v],
               ids == nullptr ? own : (*ids)[v]);
    }
    return std::move(values_);
  }

 private:
  const VariableSpec& VariableOf(uint32_t id) const {
    return manifest_.variables[manifest_.partitions[id].spec.variable()];
  }
  std::span<float> Part(uint32_t id) {
    const PartitionSpec& spec = manifest_.partitions[id].spec;
    const VariableSpec& variable = VariableOf(id);
    return std::span(values_[spec.variable()])
        .subspan(spec.row_begin() * RowElements(variable), PartitionElements(variable, spec));
  }

  const Manifest& manifest_;
  std::vector<std::vector<float>> values_;
  std::map<uint32_t, std::vector<float>> averages_;  // by partition
  std::map<uint32_t, StoredRows> rows_;              // by partition
};

}  // namespace

absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest,
                                                              VariableIds* ids) {
  KnownDamage known;
  return ReadVariables(files, directory, manifest, ids, known);
}

absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest,
                                                              VariableIds* ids,
                                                              KnownDamage& known) {
  // Sizes are checked before memory is allocated for what a manifest claims.
  const std::vector<absl::Status> wrong = FindWrongSizes(files, directory, manifest);
  if (!wrong.empty()) return wrong.front();
  ReadingVariables variables(manifest);
  std::vector<uint32_t> all(manifest.partitions.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto place = [&](size_t id, bool /*delta*/, std::string_view slot, uint64_t elements) {
    return variables.PlaceOf(static_cast<uint32_t>(id), slot, elements);
  };
  const auto done = [&](size_t id, const StoredPartition& /*stored*/) {
    variables.EndLink(static_cast<uint32_t>(id));
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const std::vector<StoredPartition> stored,
                   ReadChained(files, directory, manifest, all, place, done, known));
  return variables.Take(stored, ids);
}

}  // namespace paracord
