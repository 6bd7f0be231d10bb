// A partition of a variable: its values, its optimizer's slots and its ledger, under one lock. A
// push is applied whole or not at all, and whoever reads gets references to chunks that never
// change, so a reader neither waits for long nor sees half an update. Thread-safe. Does not check
// what it is given: the door has (store/step_check.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "exchange/step.h"
#include "proto/paracord.pb.h"
#include "store/block.h"
#include "store/gradient.h"
#include "store/ledger.h"
#include "store/optimizer.h"
#include "store/pinned_bytes.h"
#include "store/row_update.h"

namespace paracord {

// References to a tensor's chunks, of one moment.
using ChunkRefs = std::vector<ChunkRef>;

// What a partition holds; also how it is made, restored and written.
struct PartitionContents {
  Block value{0};
  std::vector<Block> slots;  // in the order of StoredSlots; none if not trained
  PartitionLedger ledger;
  uint64_t updates = 0;  // changes of the values
  bool healthy = true;   // false: some update gave a result that is not finite
};

// The slots of a partition that has its first values; `rows` is for a lazy table.
void FillSlots(const Optimizer& optimizer, PartitionContents& contents, uint64_t rows = 0);

// The generation that a push belongs to. Once it is over, a newer one may have read the ledgers and
// decided by them: what they did not show then must never be entered.
class PushFence {
 public:
  PushFence() = default;  // there is none
  // `newest` must live longer.
  PushFence(const std::atomic<uint64_t>& newest, uint64_t generation)
      : newest_(&newest), generation_(generation) {}
  bool over() const { return newest_ != nullptr && *newest_ != generation_; }

 private:
  const std::atomic<uint64_t>* newest_ = nullptr;
  uint64_t generation_ = 0;
};

// What a push brings for a partition.
struct PartitionUpdate {
  Gradient gradient;  // empty: there is none
  Rows rows;          // that the gradient has
  bool none() const { return gradient.empty() && !rows.has_value(); }
};

class Partition {
 public:
  struct Facts {
    uint32_t id = 0;
    std::string name;
    std::vector<uint64_t> shape;
    bool trained = false;
    uint64_t bytes = 0;      // of the values
    uint64_t row_begin = 0;  // the variable's row that is the first here
  };
  struct Counts {
    PartitionLedger ledger;
    uint64_t updates = 0;
    bool healthy = true;
  };
  struct Image : Counts {  // everything, of one moment
    ChunkRefs value;
    std::vector<ChunkRefs> slots;
  };

  // `pinned` counts for all partitions of a ps; null: nobody asks.
  Partition(Facts facts, const Optimizer& optimizer, PartitionContents contents,
            std::shared_ptr<PinnedBytes> pinned = nullptr);
  ~Partition();

  const Facts& facts() const { return facts_; }
  const std::shared_ptr<PinnedBytes>& pinned() const { return pinned_; }
  // Where the rows lie; it has none if the variable has no axis 0.
  const RowLayout& rows() const { return rows_; }
  // Whether an update leaves rows that a push does not name as they are.
  bool LeavesOtherRowsAlone() const { return leaves_rows_alone_; }
  // Whether every push with a gradient has to name its rows.
  bool lazy() const { return lazy_; }
  // What is kept beside the values, in the order of PartitionContents::slots.
  const std::vector<SlotSpec>& slots() const { return slots_; }
  // The shape of a slot.
  std::vector<uint64_t> SlotShape(const SlotSpec& slot) const;
  uint64_t resident_bytes() const;

  // Enters the batch if it is next, and then applies the update unless there is none or the batch
  // is rejected. Its gradient is finite and has as many elements as the partition or its rows;
  // rows are those of rows(), and are given only if others are left alone. PUSH_NONE: its
  // generation is over.
  Outcome Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
               const PushFence& fence = {});
  Outcome Push(const PlanBatch& batch, bool rejected, const Gradient& gradient,
               const PushFence& fence = {}) {
    return Push(batch, rejected, PartitionUpdate{gradient, {}}, fence);
  }
  // Of the updates to come. False: the generation that wants it is over.
  bool SetLearningRate(const LearningRate& rate, const PushFence& fence);

  // The count of updates, and into `values` the values it belongs to.
  uint64_t Pull(ChunkRefs& values) const;
  // The same for some of its rows, which are copied to `values` in their order.
  uint64_t PullRows(std::span<const uint64_t> ids, std::span<float> values) const;
  Image TakeImage() const;
  Counts GetCounts() const;

 private:
  void Apply(uint64_t step, const PartitionUpdate& update) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False: some result is not finite.
  bool ApplyDense(const UpdateScalars& scalars, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplySparse(const UpdateScalars& scalars, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplyRows(uint64_t step, std::span<const uint64_t> ids, const Gradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // As Keras' constraints of a norm do after an update.
  void Constrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ApplyEntries(size_t index, const UpdateScalars& scalars, Gradient::Entries entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Facts facts_;
  const RowLayout rows_;
  const bool lazy_;
  const bool leaves_rows_alone_;
  const std::vector<SlotSpec> slots_;
  Optimizer optimizer_;  // of which the learning rate alone changes, under mu_
  const std::shared_ptr<PinnedBytes> pinned_;  // shared with replies, which may outlive us

  mutable Mutex mu_;
  PartitionContents contents_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
