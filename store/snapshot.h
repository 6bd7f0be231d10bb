// Writes the contents of a ps into its file of a checkpoint (docs/checkpoints.md). Training goes
// on: images refer to partitions, for which each partition is locked for microseconds, and the file
// is written from the images. A snapshot is of the moment (TakeNow) or, in synchronous training, of
// a cut (TakeAt): of each partition's values after a given number of rounds. The functions block; a
// ps runs them on its executor. A SnapshotTask knows nothing of generations; its caller decides
// whether the result counts.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/memory_budget.h"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"
#include "store/partition_set.h"

namespace paracord {

struct SnapshotOrder {
  PsFileIdentity identity;
  std::string directory;    // an absolute path; the directory exists
  ImageOrder changes = {};  // says which rows of tables may be left out
  // Ids of the partitions to write, each of which this ps has; empty: all partitions of this ps.
  std::vector<uint32_t> only = {};
};

class SnapshotTask {
 public:
  // All arguments but `order` must outlive the task. Dense partitions are copied as long as the
  // copies fit in 256 MiB and in the share `copies` (in half of it if there are tables); the others
  // are read in place. The share also counts the old values of table rows that pushes change while
  // the rows are read. Setting `voided` makes TakeNow, TakeAt and Write return ABORTED.
  SnapshotTask(Files& files, const PartitionSet& content, SnapshotOrder order, MemoryShare& copies,
               const std::atomic<bool>& voided);
  ~SnapshotTask();

  // Refers to the partitions as they are.
  absl::Status TakeNow();
  // Refers to each trained partition when `cut` rounds are applied to it: now, or on the thread
  // that applies round number `cut`. Refers to all other partitions now. `taken` is called once,
  // after the last partition, on any thread, perhaps under a partition's lock: it must not block.
  // OUT_OF_RANGE: a partition has more rounds. After an error, `taken` is not called.
  absl::Status TakeAt(uint64_t cut, std::function<void()> taken);
  // Stops waiting for partitions (unless a later task waits for them), and frees the images.
  void Forget();

  // Writes the partitions that were referred to. When it returns OK, file and directory are synced.
  // A file that could not be written whole is removed. RESOURCE_EXHAUSTED: the share had no room
  // for old values, for which pushes wait at most half of the job's timeouts.ps_ms. ABORTED: also
  // if another image of a table has replaced one of this task, or a table's changed rows were
  // miscounted.
  absl::StatusOr<SnapshotReply> Write();

 private:
  struct CapturedPartition {
    Partition* partition;
    std::unique_ptr<PartitionImage> image;
    bool copied = false;
    bool awaited = false;  // TakeAt: the partition may still refer to the image
    std::string ledger{};  // the ledger, as the text that the file has
  };
  bool Writes(const Partition& partition) const;
  // While pushes are applied, sleeps, at most 5 ms a call and 0.5 s in all: pushes and snapshots
  // need the same memory bandwidth and processors.
  void YieldToPushes();
  absl::Status MakeImages();
  absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Begin(const std::string& path);
  absl::Status WriteAll(SafetensorsWriter& writer);
  SnapshotReply Reply(const std::string& name, const SafetensorsWriter& writer);

  Files& files_;
  const PartitionSet& content_;
  const SnapshotOrder order_;
  MemoryShare& copies_;
  const std::atomic<bool>& voided_;
  int yields_left_;
  std::optional<MemoryReservation> reserved_;  // for the copies
  std::vector<CapturedPartition> taken_;
};

}  // namespace paracord
