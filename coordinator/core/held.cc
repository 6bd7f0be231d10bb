#include "coordinator/core/held.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace paracord {

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

}  // namespace paracord
