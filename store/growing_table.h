// A table whose rows have 64-bit ids. The first update with a gradient for an id creates the id's
// row; if ids have to be admitted (store/admission.h), the first update that admits the id does. An
// id that has no row, or whose row has expired, reads as initial values, which depend on seed,
// table and id: reading creates nothing. A row that no update has touched for long expires; if the
// table has as many rows as it may, a new row replaces the row untouched for longest. Which rows
// are removed depends only on what a checkpoint has of the table, so a restored table goes on with
// the same rows. An update removes some expired rows, in proportion to its ids, and their memory is
// used again; a search of all rows for the oldest is rare. A row takes its values and slots, 12 or
// 16 bytes beside them and, in a large table, at most 11.5 bytes of the index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "config/limits.h"
#include "proto/paracord.pb.h"
#include "store/admission.h"
#include "store/id_index.h"
#include "store/initializer.h"
#include "store/optimizer.h"
#include "store/row_changes.h"
#include "store/row_records.h"
#include "store/row_store.h"

namespace paracord {

struct GrowingTableOptions {
  VariableSpec variable;  // shape[0], the number of shards, is not used
  uint64_t seed = 0;
  Optimizer optimizer;
  uint32_t admit_after = 0;  // this and the next two are those of Admission
  double admit_probability = 1;
  uint64_t candidates = uint64_t{1} << 20;
  // A row expires when more updates than this have passed since the last that touched it; 0: never.
  uint64_t expire_batches = 0;
  uint64_t rows_max = 0;  // 0: the most that there can be, 2^32 - 2
};

class GrowingTable : public RowStore {
 public:
  static constexpr uint64_t kExpireMax = kExpireBatchesMax;

  // INVALID_ARGUMENT names the variable: an option or its initializer (MakeRowInitializer) is
  // wrong.
  static absl::StatusOr<std::unique_ptr<GrowingTable>> Make(GrowingTableOptions options);

  void Lookup(std::span<const uint64_t> ids, std::span<float> out) const override {
    LookupAt(now_, ids, out);
  }
  void LookupBefore(const RowsBefore& before, std::span<const uint64_t> ids,
                    std::span<float> out) const override;
  // `step` is the number of updates before. If counts_steps(), the corrections of the optimizer's
  // biases depend on each row's own count of updates, not on `step`.
  bool Update(uint64_t step, std::span<const uint64_t> ids,
              std::span<const float> gradients) override;

  struct Counts {
    uint64_t rows = 0;     // all that there are, also expired ones
    uint64_t stale = 0;    // expired rows, as far as the last search found them
    uint64_t created = 0;  // this and the following count from the table's beginning
    uint64_t expired = 0;
    uint64_t evicted = 0;  // removed because of rows_max, without having expired
    uint64_t dropped = 0;  // gradients of ids that had no row and were not admitted
  };
  Counts counts() const;
  uint64_t bytes() const override;
  uint64_t RowsToPreserve(std::span<const uint64_t> ids) const override;
  const RowMemory& memory() const override { return records_.memory(); }

  // The words of a row, in memory and in an image: id, the number of the last update that touched
  // the row (modulo 2^31) with bit 31 set, the count of updates if counts_steps(), values and
  // slots.
  const RowRecords& records() const { return records_; }
  uint64_t record_words() const { return records_.record_words(); }
  bool counts_steps() const { return !ZeroGradientChangesNothing(optimizer_); }
  const std::vector<SlotSpec>& slots() const { return optimizer_.slots; }
  // An image also has the number of the last update, modulo 2^31, and the state of admission.
  uint32_t now() const { return now_; }
  const std::vector<uint32_t>& candidates() const { return admission_.candidates(); }

  // The changes since earlier images. The code that takes an image calls RowChanges::Mark.
  RowChanges& changes() { return changes_; }

  // Adds a row with `values` and initial slots for an id that has none. Called before the first
  // update. INVALID_ARGUMENT: the table is full.
  absl::Status AddRow(uint64_t id, std::span<const float> values);

  // For restoring an empty table: the caller fills the memory of RestoreRoom and RestoreCandidates
  // with the words of an image, then calls FinishRestore with the last update and the counts of
  // that image. DATA_LOSS: the words are not those of rows, an id is given twice, or `own` returns
  // false for an id.
  std::vector<std::span<float>> RestoreRoom(uint64_t rows) {
    return records_.memory().AppendMany(rows);
  }
  std::span<uint32_t> RestoreCandidates() { return admission_.candidates(); }
  using OwnFn = std::function<bool(uint64_t id)>;
  absl::Status FinishRestore(uint32_t now, const Counts& counts, const OwnFn& own);
  // Takes over what a later checkpoint has changed: removes the rows with the ids `removed`, then
  // adds or replaces the rows in `words`. DATA_LOSS as in FinishRestore, or if there are too many
  // rows.
  absl::Status RestoreChanges(uint32_t now, const Counts& counts, std::span<const uint64_t> removed,
                              std::span<float> words, const OwnFn& own);

 private:
  // The state of an update that several threads apply.
  struct Work;

  GrowingTable(GrowingTableOptions options, RowInitializer initializer);

  bool Stale(const RowRecords::Record& row) const { return StaleAt(now_, row); }
  // Whether the row has expired by the update `now`.
  bool StaleAt(uint32_t now, const RowRecords::Record& row) const;
  // Whether the row had not expired in the state before the newest round.
  bool WasThere(const RowRecords::Record& row) const {
    return !StaleAt(before_->now().value_or(now_), row);
  }
  // Copies rows; a row that has expired by the update `now` reads as its initial values.
  void LookupAt(uint32_t now, std::span<const uint64_t> ids, std::span<float> out) const;
  // Calls use(first, rows) for each group of ids, where rows[k] is the row of ids[first + k], or
  // kNone. Prefetches the first `elements` numbers of each row.
  template <class Use>
  void Locate(std::span<const uint64_t> ids, uint64_t elements, const Use& use) const;
  void UpdatePart(Work& work, size_t part) const;
  // Marks a row as touched, and adds it to a list of rows to update.
  void AddTo(RowList& list, LazyScalars& scalars, const float* gradient, uint32_t row) const;
  void Create(Work& work, LazyScalars& scalars, size_t i, uint32_t stale);
  void FirstSlots(uint32_t row);
  void Remove(uint32_t row);
  // Returns a row of the memory that is not in use.
  uint32_t AddRecord();
  // Removes at most `rows` expired rows.
  void Sweep(size_t rows);

  const GrowingTableOptions options_;
  const RowInitializer initializer_;
  RowRecords records_;
  IdIndex index_;
  Admission admission_;
  OldestRows oldest_;
  RowChanges changes_;
  uint32_t now_ = 0;  // number of the last update, modulo 2^31
  Counts counts_;
};

}  // namespace paracord
