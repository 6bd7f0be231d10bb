// A table of rows by 64-bit ids. A row comes into being when its first gradient is applied, or when
// it is admitted; until then, and after it was removed, it reads as its initial values, which are a
// pure function of seed, table and id: reading creates nothing. Rows that are not touched for long
// expire, and where there may be no more rows that one makes room which was not touched for
// longest. Which rows go is a function of what a checkpoint has, so that a table which is restored
// goes on with the same rows. An update removes rows in proportion to its ids, whose memory is used
// again; it rarely looks through all rows for the oldest. A row takes its values and slots, 12
// bytes beside them and at most 11.5 bytes of the index.
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
  uint64_t candidates = uint64_t{1} << 20;  // that admit_after counts
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
    uint64_t stale = 0;    // of these, that have expired and are removed by one of the next updates
    uint64_t created = 0;  // ever
    uint64_t expired = 0;
    uint64_t evicted = 0;  // by rows_max
    uint64_t dropped = 0;  // gradients of ids that were not admitted
  };
  Counts counts() const;
  uint64_t bytes() const override;
  uint64_t RowsToPreserve(std::span<const uint64_t> ids) const override;
  const RowMemory& memory() const override { return records_.memory(); }

  // An image has of each row these words: its id, the batch that touched it with bit 31 set, its
  // steps if they are counted, values and slots.
  const RowRecords& records() const { return records_; }
  uint64_t record_words() const { return records_.record_words(); }
  bool counts_steps() const { return !ZeroGradientChangesNothing(optimizer_); }
  const std::vector<SlotSpec>& slots() const { return optimizer_.slots; }
  // An image has these beside its rows.
  uint32_t now() const { return now_; }
  const std::vector<uint32_t>& candidates() const { return admission_.candidates(); }

  // The changes since images; whoever takes an image marks it there.
  RowChanges& changes() { return changes_; }

  // Adds a row that the table lacks, with these values and the slots of a new row, as if the first
  // batch had touched it. INVALID_ARGUMENT: there may be no more.
  absl::Status AddRow(uint64_t id, std::span<const float> values);

  // Restores an empty table from words, which are first put into the memory of so many rows and of
  // the candidates, and then taken over. DATA_LOSS: they are no rows of a table, or not of one that
  // has the ids for which `own` is true.
  std::vector<std::span<float>> RestoreRoom(uint64_t rows) {
    return records_.memory().AppendMany(rows);
  }
  std::span<uint32_t> RestoreCandidates() { return admission_.candidates(); }
  using OwnFn = std::function<bool(uint64_t id)>;
  absl::Status FinishRestore(uint32_t now, const Counts& counts, const OwnFn& own);
  // Takes over what has changed since the image that the table was restored from: removes rows,
  // then puts others, as words, in place of what there was. Errors as of FinishRestore.
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
  // Copies rows as they are, those that have expired by the batch `now` as their initial values.
  void LookupAt(uint32_t now, std::span<const uint64_t> ids, std::span<float> out) const;
  // Calls use(first, rows) for each group of ids, with the rows of the ids from that place on,
  // kNone for an id that has none. Memory of a row's first `elements` is asked for some time
  // before.
  template <class Use>
  void Locate(std::span<const uint64_t> ids, uint64_t elements, const Use& use) const;
  void UpdatePart(Work& work, size_t part) const;
  // Adds a row to those that are updated next.
  void AddTo(RowList& list, LazyScalars& scalars, const float* gradient, uint32_t row) const;
  void Create(Work& work, LazyScalars& scalars, size_t i, uint32_t stale);
  void FirstSlots(uint32_t row);
  void Remove(uint32_t row);
  // An unused row, which may be written.
  uint32_t AddRecord();
  // Removes at most so many rows that have expired.
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
