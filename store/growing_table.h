// A table of rows by 64-bit ids. A row is created when its first gradient is applied, or when its
// id is admitted. Before that, and after its removal, a row reads as its initial values, a pure
// function of seed, table and id: reading creates nothing. Rows untouched for long expire; at the
// limit of rows, the row untouched for longest makes room. Removals depend only on the contents of
// a checkpoint, so a restored table goes on with the same rows. An update removes rows in
// proportion to its ids and reuses their memory; a search of all rows for the oldest is rare. A row
// takes its values and slots, 12 bytes beside them and at most 11.5 bytes of the index.
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
  VariableSpec variable;  // shape[0] says nothing
  uint64_t seed = 0;
  Optimizer optimizer;
  uint32_t admit_after = 0;
  double admit_probability = 1;
  uint64_t candidates = uint64_t{1} << 20;  // counted for admit_after
  uint64_t expire_batches = 0;              // since a row was touched; 0: never
  uint64_t rows_max = 0;                    // 0: as many as there can be, 2^32 - 2
};

class GrowingTable : public RowStore {
 public:
  static constexpr uint64_t kExpireMax = kExpireBatchesMax;

  // INVALID_ARGUMENT names the variable, whose initializer may need a table's size, or the option.
  static absl::StatusOr<std::unique_ptr<GrowingTable>> Make(GrowingTableOptions options);

  void Lookup(std::span<const uint64_t> ids, std::span<float> out) const override {
    LookupAt(now_, ids, out);
  }
  void LookupBefore(const RowsBefore& before, std::span<const uint64_t> ids,
                    std::span<float> out) const override;
  // Each row has its own count of steps.
  bool Update(uint64_t step, std::span<const uint64_t> ids,
              std::span<const float> gradients) override;

  struct Counts {
    uint64_t rows = 0;     // now
    uint64_t stale = 0;    // expired rows, which one of the next updates removes
    uint64_t created = 0;  // ever
    uint64_t expired = 0;
    uint64_t evicted = 0;  // removed at rows_max
    uint64_t dropped = 0;  // gradients of ids without a row that were not admitted
  };
  Counts counts() const;
  uint64_t bytes() const override;
  uint64_t RowsToPreserve(std::span<const uint64_t> ids) const override;
  const RowMemory& memory() const override { return records_.memory(); }

  // The words of a row in an image: id, the last batch that touched the row with bit 31 set, the
  // steps if counts_steps(), values and slots.
  const RowRecords& records() const { return records_; }
  uint64_t record_words() const { return records_.record_words(); }
  bool counts_steps() const { return !ZeroGradientChangesNothing(optimizer_); }
  const std::vector<SlotSpec>& slots() const { return optimizer_.slots; }
  // An image also has:
  uint32_t now() const { return now_; }
  const std::vector<uint32_t>& candidates() const { return admission_.candidates(); }

  // The changes since earlier images; whoever takes an image marks it in there.
  RowChanges& changes() { return changes_; }

  // Adds a missing row with these values and first slots, as if the first batch had touched it.
  // INVALID_ARGUMENT: the table is full.
  absl::Status AddRow(uint64_t id, std::span<const float> values);

  // Restore an empty table: the caller fills the memory of RestoreRoom and RestoreCandidates with
  // words, then calls FinishRestore. DATA_LOSS: the words are no rows of a table, or `own` is false
  // for an id.
  std::vector<std::span<float>> RestoreRoom(uint64_t rows) {
    return records_.memory().AppendMany(rows);
  }
  std::span<uint32_t> RestoreCandidates() { return admission_.candidates(); }
  using OwnFn = std::function<bool(uint64_t id)>;
  absl::Status FinishRestore(uint32_t now, const Counts& counts, const OwnFn& own);
  // Takes over the changes since the restored image: removes rows, then adds or replaces rows given
  // as words. Errors as of FinishRestore.
  absl::Status RestoreChanges(uint32_t now, const Counts& counts, std::span<const uint64_t> removed,
                              std::span<float> words, const OwnFn& own);

 private:
  // The state of an update that several threads apply.
  struct Work;

  GrowingTable(GrowingTableOptions options, RowInitializer initializer);

  bool Stale(const RowRecords::Record& row) const { return StaleAt(now_, row); }
  // Whether the row has expired by the batch `now`.
  bool StaleAt(uint32_t now, const RowRecords::Record& row) const;
  // Whether the row had not expired in the state before the round.
  bool WasThere(const RowRecords::Record& row) const {
    return !StaleAt(before_->now().value_or(now_), row);
  }
  // Copies rows; a row that has expired by the batch `now` reads as its initial values.
  void LookupAt(uint32_t now, std::span<const uint64_t> ids, std::span<float> out) const;
  // Calls use(first, rows) for each group of ids, where rows[k] is the row of ids[first + k], or
  // kNone. Prefetches the first `elements` of each row.
  template <class Use>
  void Locate(std::span<const uint64_t> ids, uint64_t elements, const Use& use) const;
  void UpdatePart(Work& work, size_t part) const;
  // Adds a row to the next list of updates.
  void AddTo(RowList& list, LazyScalars& scalars, const float* gradient, uint32_t row) const;
  void Create(Work& work, LazyScalars& scalars, size_t i, uint32_t stale);
  void FirstSlots(uint32_t row);
  void Remove(uint32_t row);
  // Returns an unused row to write to.
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
  uint32_t now_ = 0;  // the last update, modulo 2^31
  Counts counts_;
};

}  // namespace paracord
