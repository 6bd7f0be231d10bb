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

namespace paracord {
namespace {

constexpr size_t kGroup = 32;     // ids prefetched together
constexpr size_t kPartIds = 512;  // ids that a thread takes at a time
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
    uint32_t stale = 0;  // its expired row; kNone: no row
  };
  std::vector<std::vector<Missing>> missing{};  // index: the part
  std::vector<RowChanges::Seen> seen{};         // index: the part
  RowList created{};                            // one row
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
    : RowStore(options.optimizer,
               {options.variable.shape().begin(), options.variable.shape().end()}),
      options_(std::move(options)),
      initializer_(std::move(initializer)),
      records_(RowNumbers(optimizer_, row_elements()), !ZeroGradientChangesNothing(optimizer_)),
      index_(Mix64(options_.seed, options_.variable.name())),
      admission_(options_.admit_after, options_.admit_probability, options_.candidates,
                 Mix64(options_.seed, options_.variable.name() + "/admit")),
      oldest_(Mix64(options_.seed, options_.variable.name() + "/oldest")) {}

bool GrowingTable::StaleAt(uint32_t now, const RowRecords::Record& row) const {
  return options_.expire_batches != 0 &&
         ((now - row.touched()) & kTouchedMask) > options_.expire_batches;
}

// A pipeline: while a group of ids is used, the records of the next group and the index entries of
// the group after it are prefetched.
template <class Use>
void GrowingTable::Locate(std::span<const uint64_t> ids, uint64_t elements, const Use& use) const {
  constexpr size_t kStages = 3;
  std::array<std::array<IdIndex::Place, kGroup>, kStages> places;
  std::array<std::array<uint32_t, kGroup>, kStages> rows;
  const size_t groups = (ids.size() + kGroup - 1) / kGroup;
  const auto ids_of = [&](size_t group) {
    return ids.subspan(group * kGroup, std::min(kGroup, ids.size() - group * kGroup));
  };
  for (size_t step = 0; step < groups + 2; ++step) {
    if (step < groups) {
      const auto own = ids_of(step);
      for (size_t i = 0; i < own.size(); ++i) {
        IdIndex::Place& place = places[step % kStages][i];
        place = index_.PlaceOf(own[i]);
        index_.Prefetch(place);
      }
    }
    if (step >= 1 && step <= groups) {
      const size_t count = ids_of(step - 1).size();
      for (size_t i = 0; i < count; ++i) {
        // The row of another id with the same 32 bits is rare.
        const uint32_t row =
            index_.Find(places[(step - 1) % kStages][i], [](uint32_t) { return true; });
        rows[(step - 1) % kStages][i] = row;
        if (row != IdIndex::kNone) records_.Prefetch(row, elements);
      }
    }
    if (step < 2) continue;
    const auto own = ids_of(step - 2);
    auto& found = rows[(step - 2) % kStages];
    for (size_t i = 0; i < own.size(); ++i) {
      const uint64_t id = own[i];
      if (found[i] == IdIndex::kNone || records_.At(found[i]).id() == id) continue;
      found[i] = index_.Find(places[(step - 2) % kStages][i],
                             [&](uint32_t row) { return records_.At(row).id() == id; });
    }
    use((step - 2) * kGroup, std::span<const uint32_t>(found).first(own.size()));
  }
}

void GrowingTable::LookupBefore(const RowsBefore& before, std::span<const uint64_t> ids,
                                std::span<float> out) const {
  LookupAt(before.now().value_or(now_), ids, out);
  before.PutOver(ids, out, initializer_);
}

void GrowingTable::LookupAt(uint32_t now, std::span<const uint64_t> ids,
                            std::span<float> out) const {
  ParallelFor((ids.size() + kPartIds - 1) / kPartIds, [&](size_t part) {
    const size_t first = part * kPartIds;
    const auto own = ids.subspan(first, std::min(kPartIds, ids.size() - first));
    Locate(own, row_elements(), [&](size_t group, std::span<const uint32_t> rows) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const std::span<float> to =
            out.subspan((first + group + i) * row_elements(), row_elements());
        if (rows[i] == IdIndex::kNone || StaleAt(now, records_.At(rows[i]))) {
          initializer_(own[group + i], to);
        } else {
          std::copy_n(records_.At(rows[i]).values(), row_elements(), to.data());
        }
      }
    });
  });
}

bool GrowingTable::Update(uint64_t step, std::span<const uint64_t> ids,
                          std::span<const float> gradients) {
  if (before_ != nullptr) before_->Touch(ids, now_);
  now_ = static_cast<uint32_t>(step) & kTouchedMask;
  changes_.Begin(now_);
  Work work{.ids = ids, .gradients = gradients, .step = step};
  work.scalars = work.created.scalars[0] = LazyScalarsAt(optimizer_, step, 0);
  const size_t parts = (ids.size() + kPartIds - 1) / kPartIds;
  work.missing.resize(parts);
  work.seen.resize(parts);
  ParallelFor(parts, [&](size_t part) { UpdatePart(work, part); });
  for (const RowChanges::Seen& seen : work.seen) changes_.Add(seen);
  LazyScalars scalars(optimizer_, step);
  for (const auto& missing : work.missing) {
    for (const Work::Missing& one : missing) Create(work, scalars, one.i, one.stale);
  }
  if (options_.expire_batches != 0) Sweep(kSweptMin + kSweptOfId * ids.size());
  return work.finite;
}

void GrowingTable::UpdatePart(Work& work, size_t part) const {
  const size_t first = part * kPartIds;
  const auto ids = work.ids.subspan(first, std::min(kPartIds, work.ids.size() - first));
  LazyScalars scalars(optimizer_, work.step);
  bool finite = true;
  RowChanges::Seen seen;
  const uint64_t unread = undo_ == nullptr ? 0 : undo_->first_unread();
  RowList list;
  list.scalars[0] = work.scalars;
  Locate(ids, records_.elements(), [&](size_t group, std::span<const uint32_t> rows) {
    list.size = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t row = rows[i];
      if (before_ != nullptr && row != IdIndex::kNone && WasThere(records_.At(row))) {
        before_->Had(first + group + i, records_.At(row).values());
      }
      if (row == IdIndex::kNone || Stale(records_.At(row))) {
        work.missing[part].push_back({first + group + i, row});
        continue;
      }
      if (undo_ != nullptr) undo_->BeforeWrite(row, unread);
      changes_.Look(records_.At(row).touched(), seen);
      AddTo(list, scalars, work.gradients.data() + (first + group + i) * row_elements(), row);
    }
    finite = UpdateList(list) && finite;
  });
  work.seen[part] = seen;
  if (!finite) work.finite = false;
}

// The row is touched, and its values follow with the list.
void GrowingTable::AddTo(RowList& list, LazyScalars& scalars, const float* gradient,
                         uint32_t row) const {
  const RowRecords::Record record = records_.At(row);
  record.Touch(now_);
  list.values[list.size] = record.values();
  list.gradients[list.size] = gradient;
  if (record.counts_steps()) {
    const uint32_t steps = record.steps();
    list.own_scalars = true;
    list.scalars[list.size] = scalars.At(steps);
    if (steps != UINT32_MAX) record.SetSteps(steps + 1);
  }
  ++list.size;
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
  initializer_(id, {records_.At(row).values(), row_elements()});
  FirstSlots(row);
  index_.Insert(index_.PlaceOf(id), row);
  oldest_.Added(records_, row, now_);
  ++counts_.created;
  changes_.Created();
  work.created.size = 0;
  AddTo(work.created, scalars, work.gradients.data() + i * row_elements(), row);
  if (!UpdateList(work.created)) work.finite = false;
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
  float* to = records_.At(row).values() + row_elements();
  for (const SlotSpec& slot : optimizer_.slots) {
    const uint64_t elements = SlotElements(slot, row_elements());
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
  BeforeWrite(row);
  return row;
}

void GrowingTable::Remove(uint32_t row) {
  const RowRecords::Record record = records_.At(row);
  BeforeWrite(row);
  if (before_ != nullptr && WasThere(record)) {
    before_->Removed(record.id(), record.values());
  }
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

uint64_t GrowingTable::RowsToPreserve(std::span<const uint64_t> ids) const {
  uint64_t rows = 0;
  if (undo_ == nullptr) return rows;
  Locate(ids, 0, [&](size_t, std::span<const uint32_t> found) {
    rows += static_cast<uint64_t>(std::ranges::count_if(
        found, [&](uint32_t row) { return row != IdIndex::kNone && undo_->Needs(row); }));
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
