// Makes the contents of a ps: partitions created from their initializers or the job's initial
// weights, or restored from a checkpoint. Blocking, on the executor's thread. The result depends on
// the arguments and files alone. It is whole: the caller serves it once everything is loaded and
// verified.
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

// Returns the memory that the partitions of a Load order need, before any is allocated. `rounds`:
// how they form rounds, in a synchronous job.
MemoryNeed NeedOf(const LoadRequest& request, const Optimizer& optimizer,
                  const RoundsNeed& rounds = {});

// What a ps holds when a Load arrives.
struct HeldBefore {
  const PartitionSet* content = nullptr;  // what it has served until now; null: nothing
  PreparedLoad* prepared = nullptr;       // partitions that were read beside `content`; null: none
};

// Loads the partitions of an order. `dir` is the job's DIR; all partitions share `pinned`; `damage`
// is the damage found so far in the checkpoints of these partitions. INVALID_ARGUMENT: the order or
// the initial weights are wrong, a partition exceeds `partition_bytes_max`, or the partitions do
// not fit in `memory`, which counts them from here on. If the order has `retain`, its partitions
// that are in `before.content` stay as they are. Partitions in `before.prepared` are read on from
// the checkpoint that they have. Other errors as in storage/checkpoint.h and storage/safetensors.h,
// with the file's name.
absl::StatusOr<std::shared_ptr<const PartitionSet>> LoadContent(
    Files& files, const std::string& dir, uint64_t partition_bytes_max,
    std::shared_ptr<PinnedBytes> pinned, MemoryBudget& memory, KnownDamage& damage,
    const LoadRequest& request, const HeldBefore& before = {});

}  // namespace paracord
