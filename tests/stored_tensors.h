// Partitions with their tensors as a checkpoint holds them, for tests.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/partitions.h"
#include "storage/checkpoint.h"

namespace paracord {

struct StoredTensors : StoredPartition {
  std::vector<float> value;
  std::map<std::string, std::vector<float>> slots;
};

inline absl::StatusOr<std::vector<StoredTensors>> ReadTensors(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest,
                                                              std::span<const uint32_t> ids) {
  std::vector<StoredTensors> tensors(ids.size());
  const auto place = [&](size_t i, std::string_view slot, uint64_t elements) {
    std::vector<float>& out = slot.empty() ? tensors[i].value : tensors[i].slots[std::string(slot)];
    out.resize(elements);
    return TensorPlace{out};
  };
  const auto stored = ReadPartitions(files, directory, manifest, ids, place);
  if (!stored.ok()) return stored.status();
  for (size_t i = 0; i < ids.size(); ++i) {
    static_cast<StoredPartition&>(tensors[i]) = (*stored)[i];
  }
  return tensors;
}

}  // namespace paracord
