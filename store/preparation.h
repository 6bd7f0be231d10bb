// Partitions on their way from a checkpoint into a ps. They may go on from one checkpoint to a
// later one that continues it, of which only the difference is read: of tables the rows that have
// changed, of other partitions everything. A ps loads through this, and prepares what a move will
// bring it while it still serves other partitions (LoadRequest.prepare). Blocks; on the executor's
// thread.
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
  // `content` has the plan and the optimizer, and outlives this object, as `order` and `maker` do;
  // of the order it takes those of the partitions that are not in `content` yet. `memory` counts
  // rows while they are not served.
  Preparation(const LoadRequest& order, const PartitionSet& content, const PartitionMaker& maker,
              MemoryReservation& memory);

  // Reads what the checkpoint in `directory`, which is called `name`, has. After an error it may be
  // tried again, from the beginning. FAILED_PRECONDITION: the checkpoint is of another run, or its
  // partitions are cut in another way. Otherwise as ReadChained.
  absl::Status Read(Files& files, const std::string& directory, KnownDamage& damage);
  // The checkpoint that was read last; empty: none was, or the newest try failed.
  const std::string& checkpoint() const { return checkpoint_; }
  bool Has(uint32_t partition) const;
  // Forgets the partitions that are not among those of the order, or are in `content` already.
  void Keep(const LoadRequest& order, const PartitionSet& content);
  size_t size() const { return ids_.size(); }

  // Makes the partitions of what was read, once. `own`: a later checkpoint may continue the one
  // that was read.
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
  std::vector<std::optional<StoredPartition>> read_;  // by the checkpoint that was read last
  std::optional<CheckpointName> name_;
  std::string directory_, checkpoint_;
};

// A preparation beside what a ps serves, with all that it needs.
class PreparedLoad {
 public:
  // INVALID_ARGUMENT: the order makes no sense. RESOURCE_EXHAUSTED: there is no room for the
  // partitions beside those that are served.
  static absl::StatusOr<std::shared_ptr<PreparedLoad>> Make(LoadRequest order,
                                                            std::shared_ptr<PinnedBytes> pinned,
                                                            std::shared_ptr<MemoryBudget> memory);
  const LoadRequest& order() const { return order_; }
  // Whether another one is of the same run, job and partitions.
  bool IsLike(const PreparedLoad& other) const;
  // Whether a Load of `order` can use this preparation: a checkpoint has been read, the run and the
  // job are those of the order, and the order has a partition that was read.
  bool IsFor(const LoadRequest& order) const;
  Preparation& partitions() { return *partitions_; }

 private:
  PreparedLoad(LoadRequest order, std::shared_ptr<MemoryBudget> memory);
  bool IsOfJob(const LoadRequest& order) const;
  // How many of the partitions of the order this has.
  size_t CountIn(const LoadRequest& order) const;

  const LoadRequest order_;
  const std::shared_ptr<MemoryBudget> budget_;
  MemoryReservation reserved_;
  PartitionSet content_;
  std::optional<PartitionMaker> maker_;
  std::optional<Preparation> partitions_;
};

}  // namespace paracord
