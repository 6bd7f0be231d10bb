// Delta checkpoints: of a table's partition such a checkpoint has the rows that changed since the
// checkpoint that it continues, and of a growing one the ids whose rows were removed since. So a
// partition's rows lie in a chain of checkpoints, the oldest of which has them all. Dense
// partitions are whole in each of them. Free functions that block, for the executor's thread;
// errors as in checkpoint.h, and what is missing or damaged in a chain is named.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
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

// Remembers which checkpoints had damaged bytes when one reader read its partitions from them.
// Several checkpoints may continue a damaged one, and each of them is then refused without reading
// it again. Thread-safe.
class KnownDamage {
 public:
  // Returns the damage of the checkpoint in `directory`, or OK if none is known.
  absl::Status Of(const std::string& directory) const;
  // Notes an error of the checkpoint in `directory` if it is DATA_LOSS. Other errors are cheap to
  // find again, or may pass.
  void Note(const std::string& directory, const absl::Status& error);

 private:
  mutable Mutex mu_;
  std::map<std::string, absl::Status> damage_ ABSL_GUARDED_BY(mu_);  // by directory
};

// Returns the directory of the checkpoint that the one in `directory` continues.
std::string BaseOf(const std::string& directory, const Manifest& manifest);
// Says in an error that it is about the chain of the checkpoint in `directory`.
absl::Status InChainOf(const std::string& directory, const absl::Status& status);
// Checks that the partition `id` of one checkpoint can go on from the same one of `base`, which is
// in `directory`. FAILED_PRECONDITION: it is of another run, or another partition.
absl::Status CheckSamePartition(const Manifest& base, const Manifest& manifest, uint32_t id,
                                const std::string& directory);
// Checks that a partition's rows in `newer`, which is of the checkpoint in `directory`, are those
// that changed since it was as in `older`, which is of the base of that checkpoint.
absl::Status CheckContinues(const StoredPartition& older, const StoredPartition& newer,
                            const std::string& directory, const Manifest& manifest);

// Returns the memory for a tensor, as PlaceFn. `delta`: its rows are those that changed.
using LinkPlaceFn =
    std::function<TensorPlace(size_t index, bool delta, std::string_view slot, uint64_t elements)>;
// Takes over what has been read for the partition `ids[index]` from one link, and verified. The
// names of the checkpoint and the partition are put in front of an error.
using LinkDoneFn = std::function<absl::Status(size_t index, const StoredPartition& stored)>;

// Reads all variables as ReadVariables in checkpoint.h, for a reader that may try several
// checkpoints.
absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest,
                                                              VariableIds* ids, KnownDamage& known);

// Reads what the links, the oldest first, have of the partitions that are wanted there, as
// ReadChained does. `read` has, by place among the ids, what the newest link that was read before
// says of a partition, and then what the last one says. `directory` is of the last link.
absl::Status ReadLinks(Files& files, const std::string& directory,
                       const std::vector<ChainLink>& links, std::span<const uint32_t> ids,
                       const LinkPlaceFn& place, const LinkDoneFn& done,
                       std::vector<std::optional<StoredPartition>>& read, KnownDamage& known);

// Reads partitions as ReadPartitions does, with the whole chain: each link of a partition, the
// oldest first, goes to `place` and then to `done`, for the partitions of one file before the next
// file is read. Returns what the last link says. A chain with known damage is refused before
// anything of it is read; damage that is found here becomes known.
absl::StatusOr<std::vector<StoredPartition>> ReadChained(Files& files, const std::string& directory,
                                                         const Manifest& manifest,
                                                         std::span<const uint32_t> ids,
                                                         const LinkPlaceFn& place,
                                                         const LinkDoneFn& done,
                                                         KnownDamage& known);

}  // namespace paracord
