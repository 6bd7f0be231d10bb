// Reads whole variables from a checkpoint, including all rows of growing tables.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "common/status_macros.h"
#include "config/partitions.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"
#include "storage/checkpoint_rows.h"
#include "storage/folded_rows.h"

namespace paracord {
namespace {

// Sorts the rows of all partitions of a variable by id.
void SortRows(std::vector<FoldedRows::Row> rows, uint64_t width, std::vector<float>& values,
              std::vector<uint64_t>& ids) {
  std::ranges::sort(rows, {}, &FoldedRows::Row::id);
  values.reserve(rows.size() * width);
  ids.reserve(rows.size());
  for (const FoldedRows::Row& row : rows) {
    ids.push_back(row.id);
    values.insert(values.end(), row.values, row.values + width);
  }
}

// Holds the memory for the tensors of a checkpoint.
class ReadingVariables {
 public:
  ReadingVariables(const Manifest& manifest, CheckpointRows* left)
      : manifest_(manifest), left_(left), values_(manifest.variables.size()) {
    for (const ManifestPartition& partition : manifest.partitions) {
      const VariableSpec& variable = manifest.variables[partition.spec.variable()];
      if (IsGrowing(variable) || IsLeft(partition.spec.id())) continue;
      std::vector<float>& whole = values_[partition.spec.variable()];
      whole.resize(whole.size() + PartitionElements(variable, partition.spec));
    }
  }

  TensorPlace PlaceOf(uint32_t id, std::string_view slot, uint64_t elements) {
    if (IsLeft(id)) return left_->PlaceOf(id, slot, elements);
    const VariableSpec& variable = VariableOf(id);
    if (IsGrowing(variable)) {
      return rows_.try_emplace(id, variable).first->second.PlaceOf(slot, elements);
    }
    if (slot.empty()) return TensorPlace{Part(id)};
    if (slot == kRowsSlot) {
      changed_[id].resize(elements);
      return TensorPlace{changed_[id]};
    }
    if (slot != kAverageSlot) return TensorPlace();
    return TensorPlace{averages_.try_emplace(id, Part(id).size()).first->second};
  }

  // Called when a link of the partition's chain has been read.
  absl::Status EndLink(uint32_t id, const StoredPartition& stored) {
    if (IsLeft(id)) return left_->EndLink(id, stored);
    if (const auto rows = rows_.find(id); rows != rows_.end()) return rows->second.EndLink(stored);
    const auto changed = changed_.find(id);
    if (changed == changed_.end()) return absl::OkStatus();
    const std::vector<float> words = std::move(changed->second);
    changed_.erase(changed);
    return TakeChanged(id, stored, words);
  }

  std::vector<std::vector<float>> Take(VariableIds* ids) {
    for (const auto& [id, average] : averages_) std::ranges::copy(average, Part(id).begin());
    if (ids != nullptr) ids->assign(values_.size(), {});
    // Partitions are ordered by variable. Frees those of a variable before sorting the next.
    while (!rows_.empty()) {
      const uint32_t v = manifest_.partitions[rows_.begin()->first].spec.variable();
      const auto end = std::ranges::find_if(rows_, [&](const auto& one) {
        return manifest_.partitions[one.first].spec.variable() != v;
      });
      std::vector<FoldedRows::Row> rows;
      for (auto it = rows_.begin(); it != end; ++it) it->second.AppendRows(rows);
      std::vector<uint64_t> own;
      SortRows(std::move(rows), RowElements(manifest_.variables[v]), values_[v],
               ids == nullptr ? own : (*ids)[v]);
      rows_.erase(rows_.begin(), end);
    }
    return std::move(values_);
  }

 private:
  // Overwrites rows of a fixed table with the rows of a delta.
  absl::Status TakeChanged(uint32_t id, const StoredPartition& stored,
                           std::span<const float> words) {
    const PartitionSpec& spec = manifest_.partitions[id].spec;
    const uint64_t width = RowElements(VariableOf(id)), rows = spec.row_end() - spec.row_begin();
    if (!stored.table.has_value()) return absl::DataLossError("it has no state of a table");
    const TableMetadata& table = *stored.table;
    const auto average = std::ranges::find(table.slots, kAverageSlot);
    const auto slot = static_cast<size_t>(average - table.slots.begin());
    const uint64_t each = RecordWords(table, width);
    std::vector<bool> changed(rows);
    for (uint64_t at = 0; at + each <= words.size(); at += each) {
      uint64_t row = 0;
      std::memcpy(&row, &words[at], sizeof row);
      row -= spec.row_begin();  // wraps around to a large number if the id is too small
      if (row >= rows) return ChangedElsewhere(row + spec.row_begin());
      if (changed[row]) return ChangedTwice(row + spec.row_begin());
      changed[row] = true;
      const auto at_row = static_cast<int64_t>(row * width);
      std::copy_n(&words[at + RowHeaderWords(table.steps)], width, Part(id).begin() + at_row);
      if (average == table.slots.end() || !averages_.contains(id)) continue;
      std::copy_n(&words[at + SlotWord(table, slot, width)], width, averages_[id].begin() + at_row);
    }
    return absl::OkStatus();
  }

  bool IsLeft(uint32_t id) const {
    return left_ != nullptr && left_->Has(manifest_.partitions[id].spec.variable());
  }
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
  CheckpointRows* const left_;  // null: no rows are left in the files
  std::vector<std::vector<float>> values_;
  std::map<uint32_t, std::vector<float>> averages_;  // keyed by partition
  std::map<uint32_t, FoldedRows> rows_;              // keyed by partition
  std::map<uint32_t, std::vector<float>> changed_;   // rows of fixed tables in the current link
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
                                                              VariableIds* ids, KnownDamage& known,
                                                              CheckpointRows* rows) {
  // Checks sizes before allocating the memory that a manifest claims.
  const std::vector<absl::Status> wrong = FindWrongSizes(files, directory, manifest);
  if (!wrong.empty()) return wrong.front();
  ReadingVariables variables(manifest, rows);
  std::vector<uint32_t> all(manifest.partitions.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto place = [&](size_t id, bool /*delta*/, std::string_view slot, uint64_t elements) {
    return variables.PlaceOf(static_cast<uint32_t>(id), slot, elements);
  };
  const auto done = [&](size_t id, const StoredPartition& stored) {
    return variables.EndLink(static_cast<uint32_t>(id), stored);
  };
  ASSIGN_OR_RETURN(const std::vector<ChainLink> links, ReadChain(files, directory, manifest, all));
  if (rows != nullptr) RETURN_IF_ERROR(rows->Open(files, links, known));
  std::vector<std::optional<StoredPartition>> read(all.size());
  RETURN_IF_ERROR(ReadLinks(files, directory, links, all, place, done, read, known));
  return variables.Take(ids);
}

}  // namespace paracord
