// Reads partitions from a checkpoint into a ps, and may go on to a later checkpoint that continues
// the first: then it reads only changed rows of tables, but dense partitions whole. A ps restores
// in this way, and, before a move, prepares the coming partitions while it serves others
// (LoadRequest.prepare). Blocking, on the executor's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/memory_budget.h"
#include "storage/chain.h"
#include "store/partition_maker.h"
#include "store/restored_partition.h"

namespace paracord {

class Preparation {
 public:
  // Takes those partitions of `order` that are not in `content`, which has the plan and the
  // optimizer. `memory` counts rows of tables while they are not served. The arguments must outlive
  // this object.
  Preparation(const LoadRequest& order, const PartitionSet& content, const PartitionMaker& maker,
              MemoryReservation& memory);

  // Reads the partitions from the checkpoint in `directory`, or what has changed in them since the
  // checkpoint that was read last; nothing if both are the same. May be called again after an
  // error; if the error came while partitions were read, all are then read whole.
  // FAILED_PRECONDITION: the checkpoint is of another run, or its partitions are cut in another
  // way. Other errors as ReadManifest and ReadChained.
  absl::Status Read(Files& files, const std::string& directory, KnownDamage& damage);
  // The name of the checkpoint that was read last; empty: none was, or reading partitions failed
  // since.
  const std::string& checkpoint() const { return checkpoint_; }
  bool Has(uint32_t partition) const;  // whether the partition is prepared here
  // Forgets the partitions that are not in `order` or are in `content` already.
  void Keep(const LoadRequest& order, const PartitionSet& content);
  size_t size() const { return ids_.size(); }

  // Makes the partitions from what was read; called once, after Read. `own`: a later checkpoint may
  // continue the one that was read. Errors name the directory and the partition.
  absl::StatusOr<std::vector<std::unique_ptr<Partition>>> Finish(bool own);

 private:
  absl::Status ReadNewer(Files& files, const std::string& directory, const Manifest& manifest,
                         KnownDamage& damage);
  const VariableSpec& VariableOf(size_t place) const;

  const LoadRequest& order_;
  const PartitionSet& content_;
  const PartitionMaker& maker_;
  MemoryReservation& memory_;
  std::vector<const PartitionSpec*> specs_;
  std::vector<uint32_t> ids_;
  std::vector<std::optional<RestoredPartition>> restored_;
  std::vector<std::optional<StoredPartition>> read_;  // from the checkpoint read last
  std::optional<CheckpointName> name_;
  std::string directory_, checkpoint_;
};

// A Preparation of partitions that a ps does not serve yet, with the order and the objects that the
// Preparation refers to.
class PreparedLoad {
 public:
  // INVALID_ARGUMENT: CheckLoad refuses the order, or the job in the order is invalid, or
  // synchronous: such a job prepares nothing.
  // RESOURCE_EXHAUSTED: there is no room for the partitions beside those that are served.
  static absl::StatusOr<std::shared_ptr<PreparedLoad>> Make(LoadRequest order,
                                                            uint64_t partition_bytes_max,
                                                            std::shared_ptr<PinnedBytes> pinned,
                                                            std::shared_ptr<MemoryBudget> memory);
  const LoadRequest& order() const { return order_; }
  // Whether `other` is of the same run and job, and prepares the same partitions.
  bool IsLike(const PreparedLoad& other) const;
  // Whether a Load of `order` can use this preparation: a checkpoint has been read, run and job are
  // those of `order`, and `order` has some partition that is prepared here.
  bool IsFor(const LoadRequest& order) const;
  Preparation& partitions() { return *partitions_; }

 private:
  PreparedLoad(LoadRequest order, std::shared_ptr<MemoryBudget> memory);
  bool IsOfJob(const LoadRequest& order) const;  // is of the same job and run
  // How many partitions of the order are prepared here.
  size_t CountIn(const LoadRequest& order) const;

  const LoadRequest order_;
  const std::shared_ptr<MemoryBudget> budget_;
  MemoryReservation reserved_;
  PartitionSet content_;
  std::optional<PartitionMaker> maker_;
  std::optional<Preparation> partitions_;
};

}  // namespace paracord
