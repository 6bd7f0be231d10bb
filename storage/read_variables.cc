// Reads whole variables out of a checkpoint, and all rows that growing tables have there.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "common/status_macros.h"
#include "config/partitions.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

// The rows of one partition of a growing table, as its file has them.
struct StoredRows {
  const VariableSpec* variable = nullptr;
  TableMetadata table;
  std::vector<float> words;
};

// A row that has not expired.
struct StoredRow {
  uint64_t id = 0;
  const float* values = nullptr;  // or their averages
};

void AddRows(const StoredRows& stored, std::vector<StoredRow>& rows) {
  const auto& [variable, table, words] = stored;
  constexpr uint32_t kTouched = (uint32_t{1} << 31) - 1;
  const uint64_t width = RowElements(*variable), header = RowHeaderWords(table.steps);
  const uint64_t record = header + width * (1 + table.slots.size());
  const auto average = std::ranges::find(table.slots, kAverageSlot);
  const auto place =
      average == table.slots.end() ? 0 : static_cast<uint64_t>(average - table.slots.begin()) + 1;
  const uint64_t expire = variable->table().expire_batches();
  for (uint64_t at = 0; at + record <= words.size(); at += record) {
    StoredRow row{.values = &words[at + header + place * width]};
    uint32_t touched = 0;
    std::memcpy(&row.id, &words[at], sizeof row.id);
    std::memcpy(&touched, &words[at + 2], sizeof touched);
    const bool expired = expire != 0 && ((table.now - touched) & kTouched) > expire;
    if (!expired) rows.push_back(row);
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
      if (slot != kRowsSlot) return TensorPlace();
      StoredRows& rows = rows_[id];
      rows.variable = &variable;
      rows.words.resize(elements);
      return TensorPlace{rows.words};
    }
    if (slot.empty()) return TensorPlace{Part(id)};
    if (slot != kAverageSlot) return TensorPlace();
    return TensorPlace{averages_.try_emplace(id, Part(id).size()).first->second};
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
  // Sizes are checked before memory is allocated for what a manifest claims.
  const std::vector<absl::Status> wrong = FindWrongSizes(files, directory, manifest);
  if (!wrong.empty()) return wrong.front();
  ReadingVariables variables(manifest);
  std::vector<uint32_t> all(manifest.partitions.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto place = [&](size_t id, std::string_view slot, uint64_t elements) {
    return variables.PlaceOf(static_cast<uint32_t>(id), slot, elements);
  };
  ASSIGN_OR_RETURN(const std::vector<StoredPartition> stored,
                   ReadPartitions(files, directory, manifest, all, place));
  return variables.Take(stored, ids);
}

}  // namespace paracord
