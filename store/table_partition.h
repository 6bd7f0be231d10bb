// A partition of a table, with its ledger, under one lock: a range of a fixed table's rows
// (store/fixed_table.h), or a shard of a growing table (store/growing_table.h). Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "store/before_values.h"
#include "store/fixed_table.h"
#include "store/growing_table.h"
#include "store/hot_ids.h"
#include "store/partition.h"
#include "store/partition_rounds.h"

namespace paracord {

// Makes the table of one shard. Errors as GrowingTable::Make. A table counts updates, so the job's
// expire_batches are divided by `round_batches`, the batches of an update (1 without rounds).
absl::StatusOr<std::unique_ptr<GrowingTable>> MakeTableOfShard(const VariableSpec& variable,
                                                               const Optimizer& optimizer,
                                                               uint64_t seed,
                                                               uint64_t round_batches = 1);

// Whether the variable is a fixed table whose rows may be named: `own`, its optimizer, leaves rows
// without a gradient as they are, or the variable is not trained.
bool KeepsFixedRows(const VariableSpec& variable, const Optimizer& own);

// The bytes of one shard of a growing table while it has no rows.
uint64_t EmptyTableBytes(const VariableSpec& variable);

// What a table's partition begins with: either `table` or `fixed` is set.
struct TableContents {
  std::unique_ptr<GrowingTable> table;
  std::unique_ptr<FixedTable> fixed;
  PartitionLedger ledger;
  uint64_t steps = 0;  // see PartitionContents
  uint64_t updates = 0;
  bool healthy = true;
};

class TablePartition : public Partition {
 public:
  // A growing table has `shards` shards, of which this is number facts.row_begin. With `rounds` the
  // partition forms rounds.
  TablePartition(Facts facts, uint64_t shards, TableContents contents,
                 std::shared_ptr<PinnedBytes> pinned = nullptr,
                 const std::optional<RoundsOptions>& rounds = {});

  bool is_table() const override { return true; }
  uint64_t row_elements() const override { return row_elements_; }
  std::string WhyNotItsRows(const RowIds& ids) const override;
  bool lazy() const override { return lazy_; }
  bool growing() const override { return growing_; }
  ~TablePartition() override;
  uint64_t resident_bytes() const override;
  uint64_t RoundBytesOf(const PartitionUpdate& update) const override;
  void ReleaseRoundBytes() override;

  Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
               const PushFence& fence) override;
  bool TakeNorms(const RoundNorms& norms, const PushFence& fence) override;
  std::optional<MeanSquares> SquaresOfMean(uint64_t generation) const override;
  bool SetLearningRate(const LearningRate& rate, const PushFence& fence) override;
  absl::StatusOr<uint64_t> PullAt(AtState state, ChunkRefs& values) const override;
  absl::StatusOr<uint64_t> PullRowsAt(AtState state, std::span<const uint64_t> ids,
                                      std::span<float> values) const override;
  absl::StatusOr<uint64_t> PullRangeAt(AtState state, uint64_t first,
                                       std::span<float> values) const override;
  Counts GetCounts() const override;
  absl::StatusOr<Lack> LackOf(const DataPlan& plan, uint64_t state) const override;
  std::unique_ptr<PartitionImage> NewImage(bool copied, const ImageOrder& order) const override;
  absl::Status ReferAt(uint64_t state, PartitionImage& image,
                       std::function<void()> referred) override;
  void ForgetImage() override;

 private:
  friend class TableImage;
  friend class GrowingImage;
  friend class FixedImage;

  RowStore& store() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Counts CountsNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::unique_ptr<PartitionRounds> MakeRounds(const std::optional<RoundsOptions>& rounds) const;
  // Push for a partition that forms rounds.
  Outcome PushLane(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                   const PushFence& fence);
  // Counts in round_rows_ the rows in the sum, and those before the round or the room that they
  // will need.
  void CountRound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Enters and applies the whole round.
  void ApplyRound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the values of `state` are those before the newest round (PartitionRounds::IsBefore).
  absl::StatusOr<bool> IsBefore(AtState state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool keeps_before() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return before_.has_value() && before_->kept();
  }
  // Whether the open image has room for the old rows of `update`; HasRoomForRound: for those of the
  // whole round, if the update completes it.
  bool HasRoomFor(const PartitionUpdate& update) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasRoomForRound(const PlanBatch& batch, const PartitionUpdate& update) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits until has_room(), at most push_wait_ms_, and if it is still false ends the image.
  // Releases the lock while waiting.
  template <class Fn>
  void AwaitRoom(const Fn& has_room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes a step of the optimizer; `update` may be none. `gradient` has its elements side by side.
  void TakeStep(const PartitionUpdate& update, std::span<const float> gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Apply(uint64_t step, const PartitionUpdate& update, std::span<const float> gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t shards_;
  const bool growing_;
  const uint64_t row_elements_;
  const bool lazy_;
  mutable std::atomic<uint64_t> pulled_ = 0;  // how many rows pulls have named

  mutable Mutex mu_;
  TableContents contents_ ABSL_GUARDED_BY(mu_);
  const std::unique_ptr<PartitionRounds> rounds_;  // guarded by mu_; null: no rounds
  std::optional<RowsBefore> before_ ABSL_GUARDED_BY(mu_);
  const std::shared_ptr<MemoryShare> round_rows_;  // thread-safe; null: not counted
  uint64_t counted_ ABSL_GUARDED_BY(mu_) = 0;      // this partition's bytes in round_rows_
  uint64_t pushed_ ABSL_GUARDED_BY(mu_) = 0;       // rows of all updates of a growing table
  HotIds hot_ ABSL_GUARDED_BY(mu_);
  mutable int64_t push_wait_ms_ ABSL_GUARDED_BY(mu_) = 0;  // for room in the image
  mutable std::condition_variable room_;  // the image has room, or is over; used with mu_
};

}  // namespace paracord
