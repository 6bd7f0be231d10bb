// Delta checkpoints. For a partition of a table, a delta has the rows changed since its base
// checkpoint and, if the table grows, the ids of rows removed since. A partition's rows therefore
// lie in a chain of checkpoints, whose oldest link has all rows of its time. Every checkpoint has
// dense partitions whole. The functions that take Files block. Errors are those of checkpoint.h,
// and name the missing or damaged checkpoint.
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

// A checkpoint of a chain.
struct ChainLink {
  std::string directory;
  Manifest manifest;
  std::vector<size_t> wanted;  // indices into the requested ids: those to be read from this link
};

// Returns the checkpoints that hold the rows of the partitions `ids`, from the oldest one to the
// one in `directory`, whose manifest is `manifest`. From the last one all of `ids` are wanted.
absl::StatusOr<std::vector<ChainLink>> ReadChain(Files& files, const std::string& directory,
                                                 const Manifest& manifest,
                                                 std::span<const uint32_t> ids);

// The checkpoints in which a reader has found damaged bytes. Several checkpoints may have a damaged
// one in their chains; a reader refuses each of them without reading the damage again. Thread-safe.
class KnownDamage {
 public:
  // Returns the known damage of the checkpoint in `directory`; OK if none is known.
  absl::Status Of(const std::string& directory) const;
  // Records an error if it is DATA_LOSS. Other errors may pass, or are cheap to find again.
  void Note(const std::string& directory, const absl::Status& error);

 private:
  mutable Mutex mu_;
  std::map<std::string, absl::Status> damage_ ABSL_GUARDED_BY(mu_);  // keyed by directory
};

// Returns the directory of the base of the checkpoint in `directory`.
std::string BaseOf(const std::string& directory, const Manifest& manifest);
// Adds to an error that it occurred in the chain of the checkpoint in `directory`. OK stays OK.
absl::Status InChainOf(const std::string& directory, const absl::Status& status);
// Checks that the partition `id` of the delta with `manifest` can continue that of the checkpoint
// in `directory`, whose manifest is `base`. FAILED_PRECONDITION: the base is of another run, or has
// a different partition.
absl::Status CheckSamePartition(const Manifest& base, const Manifest& manifest, uint32_t id,
                                const std::string& directory);
// Checks that the changed rows in `newer`, of the checkpoint in `directory` with `manifest`, were
// written against the state `older`, which the base has. DATA_LOSS: they were not.
absl::Status CheckContinues(const StoredPartition& older, const StoredPartition& newer,
                            const std::string& directory, const Manifest& manifest);

// DATA_LOSS, without the partition's name: the changed rows of a delta have the id twice
// (ChangedTwice), or an id that the partition does not have (ChangedElsewhere). CheckRowsAfter
// returns DATA_LOSS if `rows`, the number of rows after the changes, is not the number that `table`
// has.
absl::Status ChangedTwice(uint64_t id);
absl::Status ChangedElsewhere(uint64_t id);
absl::Status CheckRowsAfter(const TableMetadata& table, uint64_t rows);

// Returns the memory for a tensor, as PlaceFn does. `delta`: the link has only changes.
using LinkPlaceFn =
    std::function<TensorPlace(size_t index, bool delta, std::string_view slot, uint64_t elements)>;
// Takes over the verified data that one link has of the partition `ids[index]`. Its errors need no
// names: the caller adds those of the checkpoint and the partition.
using LinkDoneFn = std::function<absl::Status(size_t index, const StoredPartition& stored)>;

class CheckpointRows;  // storage/checkpoint_rows.h

// As ReadVariables in checkpoint.h, for a reader that may try several checkpoints. `known` is as in
// ReadChained. `rows`, unless null, leaves the rows of some tables in the files, and reads them
// later; such a table gets no values and no ids here.
absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Files& files,
                                                              const std::string& directory,
                                                              const Manifest& manifest,
                                                              VariableIds* ids, KnownDamage& known,
                                                              CheckpointRows* rows = nullptr);

// Reads from each of `links`, the oldest first, the partitions that are wanted from it, as
// ReadChained does. `directory` is that of the last link. `read` has an entry for each id: before
// the call the state of the partition in the newest link read so far, nullopt if none was, and
// after it the state in the last link.
absl::Status ReadLinks(Files& files, const std::string& directory,
                       const std::vector<ChainLink>& links, std::span<const uint32_t> ids,
                       const LinkPlaceFn& place, const LinkDoneFn& done,
                       std::vector<std::optional<StoredPartition>>& read, KnownDamage& known);

// Reads partitions as ReadPartitions does, through their whole chain: passes each link of a
// partition, oldest first, to `place` and then `done`. Finishes the partitions of one file before
// reading the next file. Returns the states in the last link. Refuses a chain with damage in
// `known` without reading it, and adds new damage to `known`.
absl::StatusOr<std::vector<StoredPartition>> ReadChained(Files& files, const std::string& directory,
                                                         const Manifest& manifest,
                                                         std::span<const uint32_t> ids,
                                                         const LinkPlaceFn& place,
                                                         const LinkDoneFn& done,
                                                         KnownDamage& known);

}  // namespace paracord
