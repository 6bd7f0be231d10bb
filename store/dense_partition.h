// A partition with all values, the optimizer's slots and the ledger. Readers get references to
// chunks that never change: a reader neither waits for long nor sees half an update. For tables,
// whose rows are named one by one, see store/table_partition.h. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/mutex.h"
#include "proto/paracord.pb.h"
#include "store/before_values.h"
#include "store/block.h"
#include "store/gradient.h"
#include "store/ledger.h"
#include "store/optimizer.h"
#include "store/partition.h"
#include "store/partition_rounds.h"
#include "store/pinned_bytes.h"

namespace paracord {

// The contents that a dense partition is made of, restored from and written as.
struct PartitionContents {
  Block value{0};
  std::vector<Block> slots;  // in the order of StoredSlots; none if not trained
  PartitionLedger ledger;
  // Steps of the optimizer: batches entered and not rejected, or rounds with such batches.
  uint64_t steps = 0;
  uint64_t updates = 0;  // changes of the values
  bool healthy = true;   // false: some update gave a result that is not finite
};

// Sets the slots of a partition that has its first values.
void FillSlots(const Optimizer& optimizer, PartitionContents& contents);

class DensePartition : public Partition {
 public:
  struct Image : Counts {  // all contents at one moment
    ChunkRefs value;
    std::vector<ChunkRefs> slots;
  };

  // With `rounds` the partition forms rounds.
  DensePartition(Facts facts, const Optimizer& optimizer, PartitionContents contents,
                 std::shared_ptr<PinnedBytes> pinned = nullptr,
                 const std::optional<RoundsOptions>& rounds = {});
  ~DensePartition() override;

  // The tensors that are kept beside the values, in the order of PartitionContents::slots.
  const std::vector<SlotSpec>& slots() const { return slots_; }
  uint64_t resident_bytes() const override;

  Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
               const PushFence& fence = {}) override;
  Outcome Push(const PlanBatch& batch, bool rejected, const Gradient& gradient,
               const PushFence& fence = {}) {
    return Push(batch, rejected, PartitionUpdate{gradient, {}}, fence);
  }
  bool TakeNorms(const RoundNorms& norms, const PushFence& fence) override;
  std::optional<MeanSquares> SquaresOfMean(uint64_t generation) const override;
  bool SetLearningRate(const LearningRate& rate, const PushFence& fence) override;
  absl::StatusOr<uint64_t> PullAt(AtState state, ChunkRefs& values) const override;
  Counts GetCounts() const override;
  absl::StatusOr<Lack> LackOf(const DataPlan& plan, uint64_t state) const override;
  std::unique_ptr<PartitionImage> NewImage(bool copied, const ImageOrder& order) const override;
  absl::Status ReferAt(uint64_t state, PartitionImage& image,
                       std::function<void()> referred) override;
  void ForgetImage() override;
  Image TakeImage() const;
  // Does the same for a thread that holds the lock.
  Image ImageHeld() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

 private:
  // Push for a partition that forms rounds.
  Outcome PushLane(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                   const PushFence& fence);
  // Enters and applies the round that is whole.
  void ApplyRound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Counts CountsNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The chunk into which an update writes chunk `i` of a block.
  ChunkRef WritableOf(const Block& block, size_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A step of the optimizer, of which an update may be none.
  void TakeStep(const PartitionUpdate& update) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False: some result is not finite.
  bool ApplyDense(const UpdateScalars& scalars, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplySparse(const UpdateScalars& scalars, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The values first, then the slots.
  std::vector<Block*> Blocks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Applies Keras' constraints of a norm, which follow an update.
  void Constrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplyEntries(size_t index, const UpdateScalars& scalars, Gradient::Entries entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::vector<SlotSpec> slots_;
  Optimizer optimizer_;  // only the learning rate changes, under mu_

  mutable Mutex mu_;
  PartitionContents contents_ ABSL_GUARDED_BY(mu_);
  const std::unique_ptr<PartitionRounds> rounds_;  // guarded by mu_; null: no rounds
  std::optional<DenseBefore> before_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
