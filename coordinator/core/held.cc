#include "coordinator/core/held.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

bool Serves(const HeldPartition& partition, uint64_t state) {
  if (!partition.trained || partition.state == state) return true;
  return partition.serves_before && partition.state == state + 1;
}

// The states that some partition serves, greatest first.
std::set<uint64_t, std::greater<>> StatesServed(std::span<const std::vector<HeldPartition>> held) {
  std::set<uint64_t, std::greater<>> states;
  for (const std::vector<HeldPartition>& of_ps : held) {
    for (const HeldPartition& partition : of_ps) {
      if (!partition.trained) continue;
      states.insert(partition.state);
      if (partition.serves_before && partition.state > 0) states.insert(partition.state - 1);
    }
  }
  if (states.empty()) states.insert(0);  // no partition is trained
  return states;
}

}  // namespace

std::optional<std::string> NeedsRollback(uint32_t partitions, std::span<const HeldPartition> held) {
  std::vector<bool> found(partitions);
  const HeldPartition* least = nullptr;
  for (const HeldPartition& partition : held) {
    if (partition.id >= partitions) continue;
    found[partition.id] = true;
    if (partition.trained && (least == nullptr || partition.state < least->state)) {
      least = &partition;
    }
  }
  const auto missing = std::ranges::find(found, false);
  if (missing != found.end()) {
    return absl::StrCat("no ps holds partition ", missing - found.begin());
  }
  for (const HeldPartition& partition : held) {
    if (partition.id >= partitions || !partition.trained) continue;
    const uint64_t ahead = partition.state - least->state;
    if (ahead == 0 || (ahead == 1 && partition.serves_before)) continue;
    return absl::StrCat("partition ", partition.id, " has applied ", partition.state,
                        " rounds and partition ", least->id, " only ", least->state,
                        ahead == 1 ? ", and what was before is gone" : "");
  }
  return std::nullopt;
}

uint64_t StateOfCut(const Manifest& manifest) {
  uint64_t batches = 0;
  for (const ManifestPartition& partition : manifest.partitions) {
    batches = std::max(batches, partition.applied + partition.rejected);
  }
  return RoundsOfFirst(manifest.plan, batches);
}

bool ServeAll(std::span<const HeldPartition> partitions, uint64_t state) {
  return !partitions.empty() &&
         std::ranges::all_of(partitions, [&](const auto& one) { return Serves(one, state); });
}

std::optional<CommonHolders> ChooseHolders(uint32_t partitions,
                                           std::span<const std::vector<HeldPartition>> held,
                                           uint64_t least) {
  for (const uint64_t state : StatesServed(held)) {
    if (state < least) break;
    CommonHolders common{state, std::vector<bool>(held.size())};
    std::vector<bool> found(partitions);
    for (size_t i = 0; i < held.size(); ++i) {
      common.serves[i] = ServeAll(held[i], state);
      if (!common.serves[i]) continue;
      for (const HeldPartition& partition : held[i]) found[partition.id] = true;
    }
    if (std::ranges::find(found, false) == found.end()) return common;
  }
  return std::nullopt;
}

}  // namespace paracord
