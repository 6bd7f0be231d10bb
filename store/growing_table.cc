#include "store/growing_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "store/lazy_scalars.h"
#include "store/norm_constraint.h"

namespace paracord {
namespace {

constexpr size_t kGroup = 32;     // ids whose memory is asked for together
constexpr size_t kPartIds = 512;  // that a thread takes at a time
// How many rows a sweep removes for each id of an update, and at least.
constexpr size_t kSweptOfId = 4;
constexpr size_t kSweptMin = 64;

}  // namespace

struct GrowingTable::Work {
  std::span<const uint64_t> ids;
  std::span<const float> gradients;
  uint64_t step = 0;
  UpdateScalars scalars{};  // without counts of steps
  struct Missing {
    size_t i = 0;
    uint32_t stale = 0;  // its row, which has expired; kNone: it has none
  };
  std::vector<std::vector<Missing>> missing{};  // by part
  std::vector<RowChanges::Seen> seen{};         // the same
  std::atomic<bool> finite = true;
};

absl::StatusOr<std::unique_ptr<GrowingTable>> GrowingTable::Make(GrowingTableOptions options) {
  const std::string& name = options.variable.name();
  if (options.variable.shape_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("table ", name, " has no rows"));
  }
  if (options.expire_batches > kExpireMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", name, ": rows expire after at most ", kExpireMax, " batches"));
  }
  if (options.admit_after > Admission::kAfterMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table ", name, ": ids are admitted after at most ", Admission::kAfterMax, " appearances"));
  }
  constexpr uint64_t kRowsMax = IdIndex::kNone - 1;
  if (options.rows_max == 0) options.rows_max = kRowsMax;
  options.rows_max = std::min(options.rows_max, kRowsMax);
  ASSIGN_OR_RETURN(RowInitializer initializer, MakeRowInitializer(options.variable, options.seed));
  return std::unique_ptr<GrowingTable>(
      new GrowingTable(std::move(options), std::move(initializer)));
}

GrowingTable::GrowingTable(GrowingTableOptions options, RowInitializer initializer)
    : options_(std::move(options)),
      initializer_(std::move(initializer)),
      row_elements_(RowElements(options_.variable)),
      records_(RowNumbers(options_.optimizer, row_elements_),
               !ZeroGradientChangesNothing(options_.optimizer)),
      index_(Mix64(options_.seed, options_.variable.name())),
      admission_(options_.admit_after, options_.admit_probability, options_.candidates,
                 Mix64(options_.seed, options_.variable.name() + "/admit")),
      oldest_(Mix64(options_.seed, options_.variable.name() + "/oldest")) {}

bool GrowingTable::Stale(const RowRecords::Record& row) const {
  return options_.expire_batches != 0 &&
         ((now_ - row.touched()) & kTouchedMask) > options_.expire_batches;
}

template <class Use>
void GrowingTable::Locate(std::span<const uint64_t> ids, uint64_t elements, const Use& use) const {
  std::array<IdIndex::Place, kGroup> places;
  std::array<uint32_t, kGroup> rows;
  for (size_t first = 0; first < ids.size(); first += kGroup) {
    const size_t count = std::min(kGroup, ids.size() - first);
    for (size_t i = 0; i < count; ++i) {
      places[i] = index_.PlaceOf(ids[first + i]);
      index_.Prefetch(places[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      // The row of another id with the same 32 bits is rare.
      rows[i] = index_.Find(places[i], [](uint32_t) { return true; });
      if (rows[i] != IdIndex::kNone) records_.Prefetch(rows[i], elements);
    }
    for (size_t i = 0; i < count; ++i) {
      const uint64_t id = ids[first + i];
      if (rows[i] != IdIndex::kNone && records_.At(rows[i]).id() != id) {
        rows[i] = index_.Find(places[i], [&](uint32_t row) { return records_.At(row).id() == id; });
      }
      use(first + i, rows[i]);
    }
  }
}

void GrowingTable::Lookup(std::span<const uint64_t> ids, std::span<float> out) const {
  ParallelFor((ids.size() + kPartIds - 1) / kPartIds, [&](size_t part) {
    const size_t first = part * kPartIds;
    const auto own = ids.subspan(first, std::min(kPartIds, ids.size() - first));
    Locate(own, row_elements_, [&](size_t i, uint32_t row) {
      const std::span<float> to = out.subspan((first + i) * row_elements_, row_elements_);
      if (row == IdIndex::kNone || Stale(records_.At(row))) return initializer_(own[i], to);
      std::copy_n(records_.At(row).values(), row_elements_, to.data());
    });
  });
}

bool GrowingTable::Update(uint64_t step, std::span<const uint64_t> ids,
                          std::span<const float> gradients) {
  now_ = static_cast<uint32_t>(step) & kTouchedMask;
  changes_.Begin(now_);
  Work work{.ids = ids, .gradients = gradients, .step = step};
  work.scalars = LazyScalarsAt(options_.optimizer, step, 0);
  const size_t parts = (ids.size() + kPartIds - 1) / kPartIds;
  work.missing.resize(parts);
  work.seen.resize(parts);
  ParallelFor(parts, [&](size_t part) { UpdatePart(work, part); });
  for (const RowChanges::Seen& seen : work.seen) changes_.Add(seen);
  LazyScalars scalars(options_.optimizer, step);
  for (const auto& missing : work.missing) {
    for (const Work::Missing& one : missing) Create(work, scalars, one.i, one.stale);
  }
  if (options_.expire_batches != 0) Sweep(kSweptMin + kSweptOfId * ids.size());
  return work.finite;
}

void GrowingTable::UpdatePart(Work& work, size_t part) const {
  const size_t first = part * kPartIds;
  const auto ids = work.ids.subspan(first, std::min(kPartIds, work.ids.size() - first));
  LazyScalars scalars(options_.optimizer, work.step);
  bool finite = true;
  RowChanges::Seen seen;
  const uint64_t unread = undo_ == nullptr ? 0 : undo_->first_unread();
  Locate(ids, records_.elements(), [&](size_t i, uint32_t row) {
    if (row == IdIndex::kNone || Stale(records_.At(row))) {
      work.missing[part].push_back({first + i, row});
    } else {
      if (undo_ != nullptr) undo_->BeforeWrite(row, unread);
      changes_.Look(records_.At(row).touched(), seen);
      finite = UpdateRow(work, scalars, first + i, row) && finite;
    }
  });
  work.seen[part] = seen;
  if (!finite) work.finite = false;
}

bool GrowingTable::UpdateRow(Work& work, LazyScalars& scalars, size_t i, uint32_t row) const {
  const Optimizer& optimizer = options_.optimizer;
  const RowRecords::Record record = records_.At(row);
  float* const values = record.values();
  UpdateArrays arrays{.gradient = work.gradients.subspan(i * row_elements_, row_elements_),
                      .value_in = values,
                      .value_out = values};
  std::array<float*, kSlotsMax> numbers{};
  float* slot = values + row_elements_;
  for (size_t s = 0; s < optimizer.slots.size(); ++s) {
    arrays.slots_in[s] = arrays.slots_out[s] = slot;
    if (optimizer.slots[s].of_rows) numbers[s] = slot;
    slot += SlotElements(optimizer.slots[s], row_elements_);
  }
  record.Touch(now_);
  const auto update = [&](const UpdateScalars& own) {
    const bool entered = !optimizer.row_wise || EnterRow(optimizer, own, arrays.gradient, numbers);
    return UpdateElements(optimizer, own, arrays) && entered;
  };
  if (!record.counts_steps()) return update(work.scalars);
  const uint32_t steps = record.steps();
  const bool finite = update(scalars.At(steps));
  if (steps != UINT32_MAX) record.SetSteps(steps + 1);
  if (optimizer.norm.has_value()) {
    std::vector<uint64_t> one(options_.variable.shape().begin(), options_.variable.shape().end());
    one[0] = 1;
    const std::array<std::span<float>, 1> chunks = {std::span(values, row_elements_)};
    ScaleToNorm(*optimizer.norm, one, chunks);
  }
  return finite;
}

void GrowingTable::Create(Work& work, LazyScalars& scalars, size_t i, uint32_t stale) {
  const uint64_t id = work.ids[i];
  // Its row may have made room for another meanwhile.
  if (stale != IdIndex::kNone && records_.At(stale).live() && records_.At(stale).id() == id) {
    Remove(stale);
    ++counts_.expired;
  }
  if (!admission_.Admit(id, work.step)) {
    ++counts_.dropped;
    return;
  }
  if (index_.size() >= options_.rows_max) {
    const uint32_t oldest = *oldest_.Find(records_, now_);
    ++(Stale(records_.At(oldest)) ? counts_.expired : counts_.evicted);
    Remove(oldest);
  }
  const uint32_t row = AddRecord();
  records_.At(row).Begin(id, now_, 0);
  initializer_(id, {records_.At(row).values(), row_elements_});
  FirstSlots(row);
  index_.Insert(index_.PlaceOf(id), row);
  oldest_.Added(records_, row, now_);
  ++counts_.created;
  changes_.Created();
  if (!UpdateRow(work, scalars, i, row)) work.finite = false;
}

absl::Status GrowingTable::AddRow(uint64_t id, std::span<const float> values) {
  if (index_.size() >= options_.rows_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are more rows than rows_max allows, which is ", options_.rows_max,
                     " for each of the table's shards"));
  }
  const uint32_t row = AddRecord();
  records_.At(row).Begin(id, now_, 0);
  std::ranges::copy(values, records_.At(row).values());
  FirstSlots(row);
  index_.Insert(index_.PlaceOf(id), row);
  ++counts_.created;
  changes_.Created();
  return absl::OkStatus();
}

// The values come before the slots.
void GrowingTable::FirstSlots(uint32_t row) {
  const float* const values = records_.At(row).values();
  float* to = records_.At(row).values() + row_elements_;
  for (const SlotSpec& slot : options_.optimizer.slots) {
    const uint64_t elements = SlotElements(slot, row_elements_);
    if (slot.of_value) {
      std::copy_n(values, elements, to);
    } else {
      std::fill_n(to, elements, slot.initial);
    }
    to += elements;
  }
}

uint32_t GrowingTable::AddRecord() {
  const uint32_t row = records_.Add();
  if (undo_ != nullptr) undo_->BeforeWrite(row, undo_->first_unread());
  return row;
}

void GrowingTable::Remove(uint32_t row) {
  const RowRecords::Record record = records_.At(row);
  if (undo_ != nullptr) undo_->BeforeWrite(row, undo_->first_unread());
  changes_.Removed(record.id(), record.touched(), index_.size());
  index_.Erase(index_.PlaceOf(record.id()), row);
  records_.Remove(row);
}

void GrowingTable::Sweep(size_t rows) {
  for (; rows > 0; --rows) {
    const std::optional<uint32_t> oldest = oldest_.Find(records_, now_);
    if (!oldest.has_value() || !Stale(records_.At(*oldest))) return;
    Remove(*oldest);
    ++counts_.expired;
  }
}

GrowingTable::Counts GrowingTable::counts() const {
  Counts counts = counts_;
  counts.rows = index_.size();
  if (options_.expire_batches != 0) {
    counts.stale = oldest_.CountOlder(records_, now_, options_.expire_batches);
  }
  return counts;
}

uint64_t GrowingTable::bytes() const {
  return records_.bytes() + index_.bytes() + admission_.bytes() + changes_.bytes();
}

std::shared_ptr<UndoLog> GrowingTable::BeginImage(std::shared_ptr<UndoLog> undo) {
  undo_.swap(undo);
  if (undo != nullptr) undo->EndReplaced();
  if (undo_ != nullptr) undo_->Begin();
  return undo;
}

uint64_t GrowingTable::RowsToPreserve(std::span<const uint64_t> ids) const {
  uint64_t rows = 0;
  if (undo_ == nullptr) return rows;
  Locate(ids, 0, [&](size_t, uint32_t row) {
    if (row != IdIndex::kNone && undo_->Needs(row)) ++rows;
  });
  return rows;
}

absl::Status GrowingTable::FinishRestore(uint32_t now, const Counts& counts, const OwnFn& own) {
  now_ = now & kTouchedMask;
  for (uint64_t i = 0; i < records_.rows(); ++i) {
    const auto row = static_cast<uint32_t>(i);
    const RowRecords::Record record = records_.At(row);
    const uint64_t id = record.id();
    const auto refuse = [&](const char* why) {
      return absl::DataLossError(absl::StrCat("row ", i, ", of id ", id, ", ", why));
    };
    if (!record.live()) return refuse("is none");
    if (!own(id)) return refuse("belongs elsewhere");
    const IdIndex::Place place = index_.PlaceOf(id);
    const auto same = [&](uint32_t other) { return records_.At(other).id() == id; };
    if (index_.Find(place, same) != IdIndex::kNone) return refuse("stands twice");
    index_.Insert(place, row);
  }
  counts_ = counts;
  return absl::OkStatus();
}

absl::Status GrowingTable::RestoreChanges(uint32_t now, const Counts& counts,
                                          std::span<const uint64_t> removed, std::span<float> words,
                                          const OwnFn& own) {
  const auto row_of = [&](uint64_t id) {
    return index_.Find(index_.PlaceOf(id),
                       [&](uint32_t row) { return records_.At(row).id() == id; });
  };
  for (const uint64_t id : removed) {
    if (const uint32_t row = row_of(id); row != IdIndex::kNone) Remove(row);
  }
  std::vector<bool> changed(records_.rows() + words.size() / record_words());
  for (size_t at = 0; at < words.size(); at += record_words()) {
    const std::span<float> from = words.subspan(at, record_words());
    const RowRecords::Record record = records_.InWords(from);
    const uint64_t id = record.id();
    if (!record.live() || !own(id)) {
      return absl::DataLossError(absl::StrCat("the changed row of id ", id, " is none of its own"));
    }
    uint32_t row = row_of(id);
    if (row == IdIndex::kNone) {
      if (index_.size() >= IdIndex::kNone - 1) return absl::DataLossError("it has too many rows");
      row = records_.Add();
      index_.Insert(index_.PlaceOf(id), row);
    }
    if (changed[row]) {
      return absl::DataLossError(absl::StrCat("the changed row of id ", id, " stands twice"));
    }
    changed[row] = true;
    records_.Assign(row, from);
  }
  now_ = now & kTouchedMask;
  counts_ = counts;
  return absl::OkStatus();
}

}  // namespace paracord
