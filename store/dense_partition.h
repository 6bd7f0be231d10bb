// A partition whose values, slots and gradients are whole tensors. Readers get references to chunks
// that never change, so no reader sees half an update. For tables, whose rows are named one by one,
// see store/table_partition.h. Thread-safe.
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

// What a dense partition is made of, and what a checkpoint has of it.
struct PartitionContents {
  Block value{0};
  std::vector<Block> slots;  // in the order of Optimizer::slots; none if not trained
  PartitionLedger ledger;
  // Steps of the optimizer so far: the batches that were entered and not rejected; in synchronous
  // training, the rounds in which some batch was not rejected.
  uint64_t steps = 0;
  uint64_t updates = 0;  // how often the values have been changed
  bool healthy = true;   // false: some update has given a value that is not finite
};

// Adds the slots, with their initial values, to contents of which `value` is set.
void FillSlots(const Optimizer& optimizer, PartitionContents& contents);

class DensePartition : public Partition {
 public:
  struct Image : Counts {  // all contents of one moment, as references
    ChunkRefs value;
    std::vector<ChunkRefs> slots;
  };

  // With `rounds` the partition forms rounds (PartitionRounds).
  DensePartition(Facts facts, const Optimizer& optimizer, PartitionContents contents,
                 std::shared_ptr<PinnedBytes> pinned = nullptr,
                 const std::optional<RoundsOptions>& rounds = {});
  ~DensePartition() override;

  // The slots that are stored beside the values, in the order of PartitionContents::slots.
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
  // TakeImage for a thread that holds the lock.
  Image ImageHeld() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

 private:
  // Push for a partition that forms rounds.
  Outcome PushLane(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                   const PushFence& fence);
  // Enters and applies the round that is whole.
  void ApplyRound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Counts CountsNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the chunk into which an update writes chunk `i` of a block.
  ChunkRef WritableOf(const Block& block, size_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes a step of the optimizer: counts it, and updates values and slots unless `update` is none.
  void TakeStep(const PartitionUpdate& update) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // ApplyDense applies a gradient of any encoding, ApplySparse the entries of a sparse gradient.
  // Both return false if some result is not finite.
  bool ApplyDense(const UpdateScalars& scalars, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplySparse(const UpdateScalars& scalars, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The blocks of the values and of each slot, in this order.
  std::vector<Block*> Blocks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Applies Keras' constraint of a norm, which follows an update.
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
