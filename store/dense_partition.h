// A partition that keeps all values of its rows, its optimizer's slots and its ledger. Whoever
// reads gets references to chunks that never change, so a reader neither waits for long nor sees
// half an update. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "proto/paracord.pb.h"
#include "store/block.h"
#include "store/gradient.h"
#include "store/kept_pages.h"
#include "store/ledger.h"
#include "store/optimizer.h"
#include "store/partition.h"
#include "store/pinned_bytes.h"
#include "store/row_update.h"

namespace paracord {

// The contents that a dense partition is made of, restored from and written as.
struct PartitionContents {
  Block value{0};
  std::vector<Block> slots;  // in the order of StoredSlots; none if not trained
  PartitionLedger ledger;
  uint64_t updates = 0;  // changes of the values
  bool healthy = true;   // false: some update gave a result that is not finite
};

// The slots of a partition that has its first values; `rows` is for a lazy table.
void FillSlots(const Optimizer& optimizer, PartitionContents& contents, uint64_t rows = 0);

class DensePartition : public Partition {
 public:
  struct Image : Counts {  // everything, of one moment
    ChunkRefs value;
    std::vector<ChunkRefs> slots;
  };

  DensePartition(Facts facts, const Optimizer& optimizer, PartitionContents contents,
                 std::shared_ptr<PinnedBytes> pinned = nullptr);
  ~DensePartition() override;

  // Where the rows lie; it has none if the variable has no axis 0.
  const RowLayout& rows() const { return rows_; }
  // The tensors that are kept beside the values, in the order of PartitionContents::slots.
  const std::vector<SlotSpec>& slots() const { return slots_; }
  // The shape of a slot.
  std::vector<uint64_t> SlotShape(const SlotSpec& slot) const;

  uint64_t row_elements() const override { return rows_.elements; }
  std::string WhyNotItsRows(const RowIds& ids) const override;
  bool LeavesOtherRowsAlone() const override { return leaves_rows_alone_; }
  bool lazy() const override { return lazy_; }
  bool growing() const override { return false; }
  bool images_by_pages() const override { return pushed_rows_.load(); }
  uint64_t resident_bytes() const override;

  Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
               const PushFence& fence = {}) override;
  Outcome Push(const PlanBatch& batch, bool rejected, const Gradient& gradient,
               const PushFence& fence = {}) {
    return Push(batch, rejected, PartitionUpdate{gradient, {}}, fence);
  }
  bool SetLearningRate(const LearningRate& rate, const PushFence& fence) override;
  uint64_t Pull(ChunkRefs& values) const override;
  uint64_t PullRows(std::span<const uint64_t> ids, std::span<float> values) const override;
  Counts GetCounts() const override;
  std::unique_ptr<PartitionImage> NewImage(bool copied, const ImageOrder& order) const override;
  Image TakeImage() const;
  // Takes an image of which rows may be changed in place: its chunks go to `kept`, in place
  // of any before it. They are read and given back under the partition's lock.
  Image TakeImage(std::shared_ptr<KeptPages>& kept) const;
  void TakeKept(KeptPages& kept, size_t block, size_t chunk, std::vector<float>& to) const;
  void EndKept(const std::shared_ptr<KeptPages>& kept) const;

 private:
  void Apply(uint64_t step, const PartitionUpdate& update) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False: some result is not finite.
  bool ApplyDense(const UpdateScalars& scalars, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplySparse(const UpdateScalars& scalars, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The values first, then the slots.
  std::vector<Block*> Blocks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplyRows(uint64_t step, std::span<const uint64_t> ids, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Applies Keras' constraints of a norm, which follow an update.
  void Constrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplyEntries(size_t index, const UpdateScalars& scalars, Gradient::Entries entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const RowLayout rows_;
  const bool lazy_;
  const bool leaves_rows_alone_;
  const std::vector<SlotSpec> slots_;
  Optimizer optimizer_;  // of which the learning rate alone changes, under mu_

  mutable Mutex mu_;
  PartitionContents contents_ ABSL_GUARDED_BY(mu_);
  mutable std::shared_ptr<KeptPages> kept_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> pushed_rows_ = false;  // some push has named some of the rows alone
};

}  // namespace paracord
