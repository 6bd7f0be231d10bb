// Reads whole variables out of a checkpoint, and all rows that growing tables have there.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"
#include "storage/folded_rows.h"

namespace paracord {
namespace {

// Puts the rows of all partitions of a variable into the order of their ids.
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
      return rows_.try_emplace(id, variable).first->second.PlaceOf(slot, elements);
    }
    if (slot.empty()) return TensorPlace{Part(id)};
    if (slot != kAverageSlot) return TensorPlace();
    return TensorPlace{averages_.try_emplace(id, Part(id).size()).first->second};
  }

  // A link of a partition's chain has been read.
  absl::Status EndLink(uint32_t id, const StoredPartition& stored) {
    const auto rows = rows_.find(id);
    return rows == rows_.end() ? absl::OkStatus() : rows->second.EndLink(stored);
  }

  std::vector<std::vector<float>> Take(VariableIds* ids) {
    for (const auto& [id, average] : averages_) std::ranges::copy(average, Part(id).begin());
    if (ids != nullptr) ids->assign(values_.size(), {});
    // The partitions of a variable follow each other. They are let go of before those of the next.
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
  std::map<uint32_t, FoldedRows> rows_;              // by partition
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
  const auto done = [&](size_t id, const StoredPartition& stored) {
    return variables.EndLink(static_cast<uint32_t>(id), stored);
  };
  RETURN_IF_ERROR(ReadChained(files, directory, manifest, all, place, done, known).status());
  return variables.Take(ids);
}

}  // namespace paracord
