// The rows of a fixed table's partition. All rows from row_begin on exist from the start, so
// `id - row_begin` is the number of an id's row. A record has the row's values, each slot, and in a
// lazy table the count of the row's updates. Records of at least a cache line are aligned to a
// cache line if the padding is small. A full checkpoint has the values and each slot as separate
// tensors: columns of the records.
//
// A call may work with several threads (common/parallel.h), but a table has one caller at a time.
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
  // `shape` is the partition's. Before any other use, values and slots are to be filled by way of
  // PlaceOf, or the slots by FillSlots. A table that is not trained has no slots.
  FixedTable(const Optimizer& optimizer, const std::vector<uint64_t>& shape, uint64_t row_begin,
             bool trained);

  // Whether an update by this optimizer may leave rows without a gradient as they are.
  static bool Fits(const Optimizer& optimizer) {
    return optimizer.lazy || ZeroGradientChangesNothing(optimizer);
  }
  // The bytes that the records of `rows` rows take.
  static uint64_t BytesOf(const Optimizer& optimizer, uint64_t rows, uint64_t row_elements,
                          bool trained);

  uint64_t row_begin() const { return row_begin_; }
  uint64_t rows() const { return memory_.rows(); }
  // The tensors beside the values: the slots, and in a lazy table the counts of updates.
  const std::vector<SlotSpec>& slots() const { return slots_; }
  // Where a tensor is in a record: `words` float32 words, from word `word` on.
  struct Column {
    uint64_t word = 0, words = 0;
  };
  const std::vector<Column>& columns() const { return columns_; }  // of the values, then of slots()
  // The memory of a column in all records, to be filled.
  PlacedIn<float> PlaceOf(const Column& column) const;
  // Sets the slots of a new table to their initial values. The values have been set before.
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

  // The changes since images. The code that takes an image calls ChangedRows::Mark.
  ChangedRows& changes() { return changes_; }
  // The number of words that a changed row has in a checkpoint, as in a growing table: the row's
  // id, a mark, in a lazy table the row's count of updates, then values and slots.
  uint64_t changed_words() const { return header_words_ + columns_[0].words + slot_words_; }
  // Appends to `words` those of row `row` of the partition, whose record is `record`.
  void AppendChanged(uint64_t row, const float* record, std::vector<float>& words) const;
  // Takes over the changed rows of a checkpoint. `words` has the rows, and `stored` describes them.
  // DATA_LOSS: a row is outside of the partition, or stands twice. FAILED_PRECONDITION: the rows
  // are those of another optimizer.
  absl::Status RestoreChanged(const TableMetadata& stored, std::span<const float> words);

 private:
  struct Part;

  // Updates `count` rows of the partition, row_of(0) to row_of(count - 1).
  template <class RowOf>
  bool UpdateRowsOf(uint64_t step, uint64_t count, std::span<const float> gradients,
                    const RowOf& row_of);
  // Updates the rows of `list`, whose numbers are `rows`, and empties `list`.
  bool Finish(Part& part, RowList& list, std::span<const uint32_t> rows);
  float* RecordOf(uint64_t row) const { return base_ + row * width_; }

  const uint64_t row_begin_;
  const std::vector<SlotSpec> slots_;
  const std::vector<Column> columns_;
  const uint64_t slot_words_;    // slots in a record, without the row's count of updates
  const uint64_t header_words_;  // id, mark and count of updates of a changed row in a checkpoint
  const uint64_t width_;         // words of a record
  RowMemory memory_;
  float* const base_;  // where the rows lie, side by side
  ChangedRows changes_;
};

}  // namespace paracord
