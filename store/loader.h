// Makes what a ps holds: partitions created from their initializers or from the job's initial
// weights, or restored from a checkpoint. Blocking, on the executor's thread; a pure function of
// its arguments and the files. Nothing is served before all of it is there and verified.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/memory_budget.h"
#include "storage/chain.h"
#include "store/partition_set.h"

namespace paracord {

class PreparedLoad;  // store/preparation.h

// The bytes of partitions, and of a push of all of them.
struct LoadNeed {
  uint64_t all = 0;
  uint64_t pushed = 0;
  uint64_t rounds = 0;      // of sums and values before, at their worst; but of rows of tables
  bool round_rows = false;  // rows of tables are in sums
};

// How partitions form rounds, in a synchronous job.
struct RoundsNeed {
  uint32_t lanes = 0;  // of a round; 0: none are formed
  bool keeps_before = false;
};

// Says what the partitions of an order will take, before any of it is allocated. Of tables it does
// not know the rows of a push, which are few, and of growing ones neither those that there will be.
LoadNeed NeedOf(const LoadRequest& request, const Optimizer& optimizer,
                const RoundsNeed& rounds = {});

// What a ps has when it is ordered to load.
struct HeldBefore {
  const Content* content = nullptr;  // that it has served until now
  PreparedLoad* prepared = nullptr;  // that it has read beside that
};

// `dir` is the job's DIR, `pinned` counts for every partition. INVALID_ARGUMENT: the order makes no
// sense, a partition is larger than `partition_bytes_max`, or all of them do not fit in `memory`,
// which counts them from here on. `damage` is what was found before in checkpoints with these
// partitions. With `retain` the order's partitions that the ps has served `before` stay as they
// are, and those that it has prepared are read on from where they are. Otherwise as
// storage/checkpoint.h and storage/safetensors.h say; the error names the file.
absl::StatusOr<std::shared_ptr<const Content>> LoadContent(
    Files& files, const std::string& dir, uint64_t partition_bytes_max,
    std::shared_ptr<PinnedBytes> pinned, MemoryBudget& memory, KnownDamage& damage,
    const LoadRequest& request, const HeldBefore& before = {});

}  // namespace paracord
