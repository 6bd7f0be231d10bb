// Makes the contents of a ps: partitions that are created from their initializers or the job's
// initial weights, or restored from a checkpoint. Blocking; a ps calls it on its executor. The
// result depends on the arguments and files alone, and has all partitions, verified.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/memory_budget.h"
#include "common/memory_need.h"
#include "storage/chain.h"
#include "store/partition_set.h"

namespace paracord {

class PreparedLoad;  // store/preparation.h

// Checks the plan, the variables and the partitions of a Load order. INVALID_ARGUMENT: they
// contradict each other, or a partition exceeds `partition_bytes_max`.
absl::Status CheckLoad(const LoadRequest& request, uint64_t partition_bytes_max);

// Returns the memory that the partitions of a checked Load order need, before any is allocated.
// `rounds` says how they form rounds, if the job is synchronous.
MemoryNeed NeedOf(const LoadRequest& request, const Optimizer& optimizer,
                  const RoundsNeed& rounds = {});

// What a ps holds when a Load order arrives.
struct HeldBefore {
  const PartitionSet* content = nullptr;  // what it has served until now; null: nothing
  PreparedLoad* prepared = nullptr;       // partitions read in advance; null: none
};

// Loads the partitions of the order `request`. `dir` is the job's directory; all partitions share
// `pinned`; `damage` is the damage found so far in the checkpoints of these partitions. `memory`
// counts the partitions from here on. If the order restores with `retain`, partitions of the same
// run that `before.content` already holds stay as they are. Partitions in `before.prepared` are
// read on from the checkpoint that they have. INVALID_ARGUMENT: the order or the initial weights
// are wrong, a partition exceeds `partition_bytes_max`, or `memory` has no room. Other errors as in
// storage/checkpoint.h and storage/safetensors.h, with the file's name.
absl::StatusOr<std::shared_ptr<const PartitionSet>> LoadContent(
    Files& files, const std::string& dir, uint64_t partition_bytes_max,
    std::shared_ptr<PinnedBytes> pinned, MemoryBudget& memory, KnownDamage& damage,
    const LoadRequest& request, const HeldBefore& before = {});

}  // namespace paracord
