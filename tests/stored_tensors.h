// Partitions with the tensors of a checkpoint, for tests.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/partitions.h"
#include "storage/chain.h"
#include "storage/checkpoint.h"

namespace paracord {

struct StoredTensors : StoredPartition {
  std::vector<float> value;
  std::map<std::string, std::vector<float>> slots;
  std::vector<float> changed;  // rows of a fixed table in the current link
};

// Overwrites rows of a fixed table with a delta's rows.
inline void TakeChanged(const VariableSpec& variable, const PartitionSpec& spec,
                        const TableMetadata& table, std::span<const float> words,
                        StoredTensors& tensors) {
  const uint64_t width = RowElements(variable), each = RecordWords(table, width);
  for (uint64_t at = 0; at < words.size(); at += each) {
    uint64_t id = 0;
    std::memcpy(&id, &words[at], sizeof id);
    const uint64_t row = id - spec.row_begin();
    const auto take = [&](std::vector<float>& to, uint64_t word, uint64_t count) {
      std::copy_n(&words[at + word], count, &to.at(row * count));
    };
    take(tensors.value, RowHeaderWords(table.steps), width);
    for (size_t s = 0; s < table.slots.size(); ++s) {
      take(tensors.slots.at(table.slots[s]), SlotWord(table, s, width), width);
    }
    uint32_t steps = 0;
    std::memcpy(&steps, &words[at + 3], sizeof steps);
    if (table.steps) tensors.slots.at(kStepsSlot).at(row) = static_cast<float>(steps);
  }
}

// Reads fixed tables from the whole chain, and growing tables from the last link.
inline absl::StatusOr<std::vector<StoredTensors>> ReadTensors(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest,
                                                              std::span<const uint32_t> ids) {
  std::vector<StoredTensors> tensors(ids.size());
  const auto spec_of = [&](size_t i) -> const PartitionSpec& {
    return manifest.partitions[ids[i]].spec;
  };
  const auto variable_of = [&](size_t i) -> const VariableSpec& {
    return manifest.variables[spec_of(i).variable()];
  };
  const auto place = [&](size_t i, bool delta, std::string_view slot, uint64_t elements) {
    const bool rows = delta && !IsGrowing(variable_of(i));
    std::vector<float>& out = rows           ? tensors[i].changed
                              : slot.empty() ? tensors[i].value
                                             : tensors[i].slots[std::string(slot)];
    out.resize(elements);
    return TensorPlace{out};
  };
  const auto done = [&](size_t i, const StoredPartition& stored) {
    if (!tensors[i].changed.empty()) {
      TakeChanged(variable_of(i), spec_of(i), *stored.table, tensors[i].changed, tensors[i]);
      tensors[i].changed.clear();
    }
    return absl::OkStatus();
  };
  KnownDamage known;
  const auto stored = ReadChained(files, directory, manifest, ids, place, done, known);
  if (!stored.ok()) return stored.status();
  for (size_t i = 0; i < ids.size(); ++i) {
    static_cast<StoredPartition&>(tensors[i]) = (*stored)[i];
  }
  return tensors;
}

}  // namespace paracord
