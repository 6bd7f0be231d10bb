// Writes the contents of a ps into its file of a checkpoint (docs/checkpoints.md). Training goes
// on: references are taken partition by partition, each under the partition's lock for
// microseconds, and what is written comes from these. A snapshot is of the moment (TakeNow), or in
// synchronous training a cut (TakeAt): then each partition is referred to when it has applied so
// many rounds. Blocking; each function runs on the executor's thread. It knows nothing of
// generations; its caller decides whether the result still counts.
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
  std::string directory;    // absolute, and exists
  ImageOrder changes = {};  // rows that may be left out
  // Ids of the partitions that are written, which are held; none: all that are held.
  std::vector<uint32_t> only = {};
};

class SnapshotTask {
 public:
  // All arguments but `order` must outlive the task. Partitions are copied as long as they fit in
  // half of the share `copies`; the others are read in place, and the share counts old values of
  // table rows that pushes change meanwhile.
  SnapshotTask(Files& files, const PartitionSet& content, SnapshotOrder order, MemoryShare& copies,
               const std::atomic<bool>& voided);
  ~SnapshotTask();

  // Takes the partitions as they are. ABORTED once `voided` is set, as in the functions below.
  absl::Status TakeNow();
  // Takes each trained partition when its values have `cut` rounds, now or on the thread that
  // applies the last batch. `taken` is called once, after the last partition, on any thread,
  // perhaps under a partition's lock: it must not block. OUT_OF_RANGE: a partition has more rounds,
  // and `taken` is not called.
  absl::Status TakeAt(uint64_t cut, std::function<void()> taken);
  // Stops waiting for partitions (unless a later task waits for them), and frees what was taken.
  void Forget();

  // Writes what was taken. When this returns OK, file and directory are synced. A file that could
  // not be written whole is removed. RESOURCE_EXHAUSTED: the share was full for longer than pushes
  // wait, half of the job's timeouts.ps_ms.
  absl::StatusOr<SnapshotReply> Write();

 private:
  struct CapturedPartition {
    Partition* partition;
    std::unique_ptr<PartitionImage> image;
    bool copied = false;
    bool awaited = false;  // the partition may still refer to the image
    std::string ledger{};  // in the file's format
  };
  bool Writes(const Partition& partition) const;
  // Yields to pushes that are being applied, within limits, because both need memory bandwidth and
  // processors.
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
  std::optional<MemoryReservation> reserved_;  // for as long as what is taken lives
  std::vector<CapturedPartition> taken_;
};

}  // namespace paracord
