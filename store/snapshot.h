// Writes the contents of a ps into its file of a checkpoint (docs/checkpoints.md). Training goes
// on: it takes references partition by partition, each under the partition's lock for microseconds,
// and writes from these. Blocking; runs on the executor's thread. It knows nothing of generations;
// its caller decides whether the result still counts.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/memory_budget.h"
#include "storage/checkpoint.h"
#include "store/partition_set.h"

namespace paracord {

// `directory` is absolute and exists. When this returns OK, file and directory are synced. A file
// that could not be written whole is removed. `order` says which rows may be left out. Partitions
// are copied while half of the share `copies` has room for them; the others are read in place, and
// the share counts what rows of tables were before pushes changed them. RESOURCE_EXHAUSTED: it was
// full for longer than pushes wait, half of the job's timeouts.ps_ms. ABORTED once `voided` is set.
absl::StatusOr<SnapshotReply> WriteSnapshot(Files& files, const Content& content,
                                            const PsFileIdentity& identity,
                                            const std::string& directory, ImageOrder order,
                                            MemoryShare& copies, const std::atomic<bool>& voided);

}  // namespace paracord
