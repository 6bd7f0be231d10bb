// Writes what a ps holds into the file of a checkpoint round (storage/CHECKPOINT.md). Training goes
// on meanwhile: references are taken partition by partition, under each lock for microseconds, and
// the bytes are written from them. Blocking, on the executor's thread. Knows nothing of
// generations; the door decides whether the result still counts.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "storage/checkpoint.h"
#include "store/partition_set.h"

namespace paracord {

// `directory` is absolute and exists. The file and the directory are synced when this returns. A
// file that could not be written whole is removed. ABORTED once `voided` is set.
absl::StatusOr<SnapshotReply> WriteSnapshot(Files& files, const Content& content,
                                            const PsFileIdentity& identity,
                                            const std::string& directory,
                                            const std::atomic<bool>& voided);

}  // namespace paracord
