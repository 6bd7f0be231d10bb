// The common part of fixed and growing tables: memory with the rows' values and slots, the kernel
// that updates rows (store/row_kernel.h), and an image of all rows at one moment, which is read
// while rows change. Tables differ in how an id leads to its row, and in whether rows come and go.
//
// A call may work with several threads (common/parallel.h), but a table has one caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "store/before_values.h"
#include "store/lazy_scalars.h"
#include "store/optimizer.h"
#include "store/row_kernel.h"
#include "store/row_memory.h"
#include "store/undo_log.h"

namespace paracord {

class RowStore {
 public:
  virtual ~RowStore() = default;
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  uint64_t row_elements() const { return row_elements_; }
  const Optimizer& optimizer() const { return optimizer_; }
  void SetLearningRate(const LearningRate& rate) { optimizer_.learning_rate = rate; }

  // Copies the values of the rows `ids` to `out`, in the order of `ids`.
  virtual void Lookup(std::span<const uint64_t> ids, std::span<float> out) const = 0;
  // Updates the rows `ids`, which are ascending and distinct, by the optimizer. `step` is the
  // number of steps (batches or rounds) before. Returns false if a result is not finite.
  virtual bool Update(uint64_t step, std::span<const uint64_t> ids,
                      std::span<const float> gradients) = 0;
  virtual uint64_t bytes() const = 0;

  // ---- The state before the newest round (store/before_values.h).
  // From now on tells `before` which rows an update touches or removes; null: tells nobody.
  void TellBefore(RowsBefore* before) { before_ = before; }
  // Copies the rows `ids`, ascending and distinct, as they were in the state that `before` keeps.
  virtual void LookupBefore(const RowsBefore& before, std::span<const uint64_t> ids,
                            std::span<float> out) const = 0;

  // ---- Images: the rows at one moment, for a checkpoint.
  // Ends the image that is open, if any, and returns its log. If `undo` is not null, begins an
  // image of this moment, which is read by way of `undo`, the new log.
  std::shared_ptr<UndoLog> BeginImage(std::shared_ptr<UndoLog> undo);
  UndoLog* undo() const { return undo_.get(); }
  // How many of the rows `ids` an update would have to preserve for the open image.
  virtual uint64_t RowsToPreserve(std::span<const uint64_t> ids) const = 0;
  virtual const RowMemory& memory() const = 0;

 protected:
  // `shape` is that of the variable or of a partition, since only the shape of a row matters.
  RowStore(const Optimizer& optimizer, std::vector<uint64_t> shape);

  // Updates values and slots of a list of rows, and applies the constraint of a norm.
  bool UpdateList(const RowList& list) const;
  void BeforeWrite(uint32_t row) const {
    if (undo_ != nullptr) undo_->BeforeWrite(row, undo_->first_unread());
  }

  Optimizer optimizer_;            // only the learning rate changes
  std::shared_ptr<UndoLog> undo_;  // log of the open image, shared with the image; null: no image
  RowsBefore* before_ = nullptr;

 private:
  const std::vector<uint64_t> one_;  // the shape of one row
  const uint64_t row_elements_;
};

}  // namespace paracord
