// Delta checkpoints: of a growing table's partition such a checkpoint has the rows that changed
// since the checkpoint that it continues, and the ids whose rows were removed since. So a
// partition's rows lie in a chain of checkpoints, the oldest of which has them all. Dense
// partitions are whole in each of them. Free functions that block, for the executor's thread;
// errors as in checkpoint.h, and what is missing or damaged in a chain is named.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/checkpoint.h"

namespace paracord {

// One checkpoint of a chain.
struct ChainLink {
  std::string directory;
  Manifest manifest;
  std::vector<size_t> wanted;  // the places among the ids asked for that have rows here
};

// Returns the checkpoints that have the partitions `ids` of one checkpoint, the oldest first; the
// last one is that checkpoint itself, where all of them are wanted.
absl::StatusOr<std::vector<ChainLink>> ReadChain(Files& files, const std::string& directory,
                                                 const Manifest& manifest,
                                                 std::span<const uint32_t> ids);

// Returns the memory for a tensor, as PlaceFn. `delta`: its rows are those that changed.
using LinkPlaceFn =
    std::function<TensorPlace(size_t index, bool delta, std::string_view slot, uint64_t elements)>;
// Takes over what has been read for the partition `ids[index]` from one link, and verified.
using LinkDoneFn = std::function<absl::Status(size_t index, const StoredPartition& stored)>;

// Reads partitions as ReadPartitions does, with the whole chain: each link of a partition, the
// oldest first, goes to `place` and then to `done`. Returns what the last link says.
absl::StatusOr<std::vector<StoredPartition>> ReadChained(Files& files, const std::string& directory,
                                                         const Manifest& manifest,
                                                         std::span<const uint32_t> ids,
                                                         const LinkPlaceFn& place,
                                                         const LinkDoneFn& done);

}  // namespace paracord
