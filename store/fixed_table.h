// The rows of a fixed table's partition: all rows from row_begin on exist, and subtraction finds
// the record of an id. A record has the row's values, each slot, and in a lazy table the count of
// the row's updates. Records of at least a cache line are aligned to a cache line where the padding
// is small. In checkpoints values and slots are separate tensors: columns of the records.
//
// Several threads work on one call (common/parallel.h), but a table has one caller at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "storage/checkpoint.h"
#include "storage/safetensors.h"
#include "store/changed_rows.h"
#include "store/optimizer.h"
#include "store/row_memory.h"
#include "store/row_store.h"

namespace paracord {

class FixedTable : public RowStore {
 public:
  // `shape` is the partition's. The rows are to be filled (PlaceOf, FillSlots) before anything
  // else; a table that is not trained has no slots.
  FixedTable(const Optimizer& optimizer, const std::vector<uint64_t>& shape, uint64_t row_begin,
             bool trained);

  // Whether an update by this optimizer may leave rows without a gradient alone.
  static bool Fits(const Optimizer& optimizer) {
    return optimizer.lazy || ZeroGradientChangesNothing(optimizer);
  }
  // The bytes of a table of `rows` rows.
  static uint64_t BytesOf(const Optimizer& optimizer, uint64_t rows, uint64_t row_elements,
                          bool trained);

  uint64_t row_begin() const { return row_begin_; }
  uint64_t rows() const { return memory_.rows(); }
  // The tensors beside the values: the slots, and in a lazy table the counts of updates.
  const std::vector<SlotSpec>& slots() const { return slots_; }
  // A tensor among the words of a record: `words` of them from `word` on.
  struct Column {
    uint64_t word = 0, words = 0;
  };
  const std::vector<Column>& columns() const { return columns_; }  // values, then slots()
  // The memory of a column in all records, to be filled.
  PlacedIn<float> PlaceOf(const Column& column) const;
  // Sets the slots of a new table, whose values are set, to their first values.
  void FillSlots();

  void Lookup(std::span<const uint64_t> ids, std::span<float> out) const override;
  // Copies the values of consecutive rows, from row `first` of the partition on.
  void Read(uint64_t first, std::span<float> out) const;
  void LookupBefore(const RowsBefore& before, std::span<const uint64_t> ids,
                    std::span<float> out) const override;
  void ReadBefore(const RowsBefore& before, uint64_t first, std::span<float> out) const;
  bool Update(uint64_t step, std::span<const uint64_t> ids,
              std::span<const float> gradients) override;
  // Updates all rows.
  bool UpdateAll(uint64_t step, std::span<const float> gradients);
  uint64_t bytes() const override { return memory_.bytes() + changes_.bytes(); }
  uint64_t RowsToPreserve(std::span<const uint64_t> ids) const override;
  const RowMemory& memory() const override { return memory_; }

  // ---- The changes since images; who takes an image calls ChangedRows::Mark.
  ChangedRows& changes() { return changes_; }
  // The words of a changed row in a checkpoint, as for a growing table: the row's id, a mark, in a
  // lazy table the row's steps, then values and slots.
  uint64_t changed_words() const { return header_words_ + columns_[0].words + slot_words_; }
  // Appends the words of row `row` of the partition, whose record is `record`.
  void AppendChanged(uint64_t row, const float* record, std::vector<float>& words) const;
  // Takes over the rows changed since the restored checkpoint; `stored` describes the rows in
  // `words`. DATA_LOSS: rows outside the table, or twice. FAILED_PRECONDITION: they are of another
  // optimizer.
  absl::Status RestoreChanged(const TableMetadata& stored, std::span<const float> words);

 private:
  struct Part;

  // Updates `count` rows of the partition, row_of(0) to row_of(count - 1).
  template <class RowOf>
  bool UpdateRowsOf(uint64_t step, uint64_t count, std::span<const float> gradients,
                    const RowOf& row_of);
  // Updates the rows of `list`, and empties it.
  bool Finish(Part& part, RowList& list, std::span<const uint32_t> rows);
  float* RecordOf(uint64_t row) const { return base_ + row * width_; }

  const uint64_t row_begin_;
  const std::vector<SlotSpec> slots_;
  const std::vector<Column> columns_;
  const uint64_t slot_words_;    // slots in a record, without a lazy row's steps
  const uint64_t header_words_;  // id, mark and steps of a changed row in a checkpoint
  const uint64_t width_;         // words of a record
  RowMemory memory_;
  float* const base_;  // where the rows lie, side by side
  ChangedRows changes_;
};

}  // namespace paracord
