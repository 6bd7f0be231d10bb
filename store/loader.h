// Makes the contents of a ps: partitions created from their initializers or the job's initial
// weights, or restored from a checkpoint. Blocking, on the executor's thread; a pure function of
// arguments and files. Nothing is served before everything is loaded and verified.
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

// Returns the memory that an order's partitions need, before any is allocated. `rounds`: of a
// synchronous job.
MemoryNeed NeedOf(const LoadRequest& request, const Optimizer& optimizer,
                  const RoundsNeed& rounds = {});

// What a ps holds when a Load arrives.
struct HeldBefore {
  const PartitionSet* content = nullptr;  // served until now
  PreparedLoad* prepared = nullptr;       // read beside `content`
};

// Loads an order. `dir` is the job's DIR; all partitions share `pinned`. INVALID_ARGUMENT: the
// order is contradictory, a partition exceeds `partition_bytes_max`, or the partitions do not fit
// in `memory`, which counts them from here on. `damage` is the damage found so far in checkpoints
// of these partitions. With `retain`, ordered partitions in `before.content` stay as they are, and
// prepared ones are read on from where they are. Other errors as in storage/checkpoint.h and
// storage/safetensors.h, with the file's name.
absl::StatusOr<std::shared_ptr<const PartitionSet>> LoadContent(
    Files& files, const std::string& dir, uint64_t partition_bytes_max,
    std::shared_ptr<PinnedBytes> pinned, MemoryBudget& memory, KnownDamage& damage,
    const LoadRequest& request, const HeldBefore& before = {});

}  // namespace paracord
