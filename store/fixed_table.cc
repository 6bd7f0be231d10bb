#include "store/fixed_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/parallel.h"
#include "common/prefetch.h"
#include "exchange/rows.h"

namespace paracord {
namespace {

constexpr uint64_t kLineWords = 64 / sizeof(float);
// Rows are prefetched so many ahead, and at most kAheadWordsMax of a row.
constexpr size_t kLookAhead = 16;
constexpr uint64_t kAheadWordsMax = 16 * kLineWords;
constexpr uint64_t kPartRows = 512;    // rows that a thread takes at a time
constexpr uint64_t kRowsAlone = 8192;  // fewer rows do not pay for a second thread
// A lazy table counts the steps of a row in float32, which is exact up to this count.
constexpr float kStepsMax = 1 << 24;

std::vector<FixedTable::Column> ColumnsOf(std::span<const SlotSpec> slots, uint64_t row_elements) {
  std::vector<FixedTable::Column> columns = {{0, row_elements}};
  for (const SlotSpec& slot : slots) {
    const FixedTable::Column& last = columns.back();
    columns.push_back({last.word + last.words, SlotElements(slot, row_elements)});
  }
  return columns;
}

// Aligns records to cache lines, unless the padding would exceed an eighth.
uint64_t WidthOf(std::span<const FixedTable::Column> columns) {
  const uint64_t words = columns.back().word + columns.back().words;
  const uint64_t padded = (words + kLineWords - 1) / kLineWords * kLineWords;
  return words >= kLineWords && (padded - words) * 8 <= words ? padded : words;
}

std::vector<SlotSpec> SlotsOf(const Optimizer& optimizer, bool trained) {
  return trained ? StoredSlots(optimizer) : std::vector<SlotSpec>();
}

uint64_t RowsOf(std::span<const uint64_t> shape) { return shape.empty() ? 1 : shape[0]; }

// Asks for the lines of a record, or of its values alone.
[[gnu::always_inline]] inline void PrefetchRecord(const float* at, uint64_t words, bool to_write) {
  for (uint64_t i = 0; i < std::min(words, kAheadWordsMax); i += kLineWords) {
    to_write ? PrefetchToWrite(at + i) : PrefetchToRead(at + i);
  }
}

template <class Body>
void ForParts(uint64_t rows, const Body& body) {
  const size_t parts = (rows + kPartRows - 1) / kPartRows;
  if (rows >= kRowsAlone) return ParallelFor(parts, body);
  for (size_t part = 0; part < parts; ++part) body(part);
}

}  // namespace

FixedTable::FixedTable(const Optimizer& optimizer, const std::vector<uint64_t>& shape,
                       uint64_t row_begin, bool trained)
    : RowStore(optimizer, shape),
      row_begin_(row_begin),
      slots_(SlotsOf(optimizer, trained)),
      columns_(ColumnsOf(slots_, row_elements())),
      slot_words_(trained ? RowNumbers(optimizer, row_elements()) - row_elements() : 0),
      header_words_(RowHeaderWords(optimizer.lazy && trained)),
      width_(std::max<uint64_t>(WidthOf(columns_), 1)),
      memory_(width_, RowsOf(shape)),
      base_(RowsOf(shape) == 0 ? nullptr : memory_.AppendMany(RowsOf(shape))[0].data()),
      changes_(RowsOf(shape)) {}

uint64_t FixedTable::BytesOf(const Optimizer& optimizer, uint64_t rows, uint64_t row_elements,
                             bool trained) {
  const std::vector<SlotSpec> slots = SlotsOf(optimizer, trained);
  return rows * WidthOf(ColumnsOf(slots, row_elements)) * sizeof(float);
}

PlacedIn<float> FixedTable::PlaceOf(const Column& column) const {
  return {base_ + column.word, rows() * column.words, column.words, width_};
}

void FixedTable::FillSlots() {
  for (uint64_t row = 0; row < rows(); ++row) {
    float* const record = RecordOf(row);
    for (size_t s = 0; s < slots_.size(); ++s) {
      const Column& column = columns_[s + 1];
      if (slots_[s].of_value) {
        std::copy_n(record, column.words, record + column.word);
      } else {
        std::fill_n(record + column.word, column.words, slots_[s].initial);
      }
    }
  }
}

void FixedTable::Lookup(std::span<const uint64_t> ids, std::span<float> out) const {
  ForParts(ids.size(), [&](size_t part) {
    const size_t first = part * kPartRows;
    const size_t end = std::min<size_t>(ids.size(), first + kPartRows);
    const auto ask = [&](size_t i) __attribute__((always_inline)) {
      PrefetchRecord(RecordOf(ids[i] - row_begin_), row_elements(), /*to_write=*/false);
    };
    for (size_t i = first; i < std::min(end, first + kLookAhead); ++i) ask(i);
    for (size_t i = first; i < end; ++i) {
      if (i + kLookAhead < end) ask(i + kLookAhead);
      std::copy_n(RecordOf(ids[i] - row_begin_), row_elements(), out.data() + i * row_elements());
    }
  });
}

void FixedTable::Read(uint64_t first, std::span<float> out) const {
  for (uint64_t at = 0; at < out.size(); at += row_elements()) {
    std::copy_n(RecordOf(first++), row_elements(), out.data() + at);
  }
}

void FixedTable::LookupBefore(const RowsBefore& before, std::span<const uint64_t> ids,
                              std::span<float> out) const {
  Lookup(ids, out);
  before.PutOver(ids, out, [](uint64_t, std::span<float>) {});  // there are all rows at all times
}

void FixedTable::ReadBefore(const RowsBefore& before, uint64_t first, std::span<float> out) const {
  Read(first, out);
  before.PutOverRange(row_begin_ + first, out);
}

// The state of a thread that updates a part of a push.
struct FixedTable::Part {
  Part(const FixedTable& table, uint64_t batches, uint64_t first)
      : step(batches), done(first), scalars(table.optimizer(), batches) {
    if (table.undo() != nullptr) unread = table.undo()->first_unread();
  }
  const uint64_t step;
  uint64_t done;  // rows of the push, up to the end of what the thread has updated
  LazyScalars scalars;
  uint64_t unread = 0;
};

// While the rows of a list are updated, the rows of the next list are prefetched.
template <class RowOf>
bool FixedTable::UpdateRowsOf(uint64_t step, uint64_t count, std::span<const float> gradients,
                              const RowOf& row_of) {
  std::atomic<bool> finite = true;
  const UpdateScalars exact = ScalarsAt(optimizer_, step);
  const uint64_t words = columns_.back().word + columns_.back().words;
  ForParts(count, [&](size_t index) {
    Part part(*this, step, index * kPartRows);
    std::array<RowList, 2> lists;
    std::array<std::array<uint32_t, RowList::kMost>, 2> rows;
    const uint64_t end = std::min(count, (index + 1) * kPartRows);
    size_t now = 0;
    for (RowList& list : lists) {
      list.own_scalars = optimizer_.lazy;
      list.scalars[0] = exact;
    }
    bool all_finite = true;
    for (uint64_t first = index * kPartRows; first < end; now ^= 1) {
      RowList& next = lists[now];
      for (next.size = 0; next.size < RowList::kMost && first < end; ++first, ++next.size) {
        const auto row = static_cast<uint32_t>(row_of(first));
        rows[now][next.size] = row;
        next.values[next.size] = RecordOf(row);
        next.gradients[next.size] = gradients.data() + first * row_elements();
        PrefetchRecord(next.values[next.size], words, /*to_write=*/true);
      }
      all_finite = Finish(part, lists[now ^ 1], rows[now ^ 1]) && all_finite;
    }
    if (!Finish(part, lists[now ^ 1], rows[now ^ 1]) || !all_finite) finite = false;
  });
  return finite;
}

bool FixedTable::Finish(Part& part, RowList& list, std::span<const uint32_t> rows) {
  if (list.size == 0) return true;
  const uint64_t steps_word = columns_.back().word;
  for (size_t i = 0; i < list.size; ++i) {
    if (undo_ != nullptr) undo_->BeforeWrite(rows[i], part.unread);
    if (before_ != nullptr) before_->Had(part.done + i, list.values[i]);
    changes_.Set(rows[i]);
    if (!optimizer_.lazy) continue;
    float& steps = list.values[i][steps_word];
    list.scalars[i] = part.scalars.At(static_cast<uint64_t>(steps));
    if (steps < kStepsMax) ++steps;
  }
  const bool finite = UpdateList(list);
  part.done += list.size;
  list.size = 0;
  return finite;
}

bool FixedTable::Update(uint64_t step, std::span<const uint64_t> ids,
                        std::span<const float> gradients) {
  if (before_ != nullptr) before_->Touch(ids, /*now=*/0);
  return UpdateRowsOf(step, ids.size(), gradients, [&](uint64_t i) { return ids[i] - row_begin_; });
}

bool FixedTable::UpdateAll(uint64_t step, std::span<const float> gradients) {
  if (before_ != nullptr) {
    RowIds ids(rows());
    std::iota(ids.begin(), ids.end(), row_begin_);
    before_->Touch(ids, /*now=*/0);
  }
  return UpdateRowsOf(step, rows(), gradients, [](uint64_t i) { return i; });
}

uint64_t FixedTable::RowsToPreserve(std::span<const uint64_t> ids) const {
  if (undo_ == nullptr) return 0;
  return static_cast<uint64_t>(std::ranges::count_if(
      ids, [&](uint64_t id) { return undo_->Needs(static_cast<uint32_t>(id - row_begin_)); }));
}

namespace {

// The bit that marks an existing row in the records of a growing table.
constexpr uint32_t kMark = uint32_t{1} << 31;

}  // namespace

void FixedTable::AppendChanged(uint64_t row, const float* record, std::vector<float>& words) const {
  const uint64_t id = row_begin_ + row, values = columns_[0].words + slot_words_;
  const size_t at = words.size();
  words.resize(at + changed_words());
  std::memcpy(&words[at], &id, sizeof id);
  std::memcpy(&words[at + 2], &kMark, sizeof kMark);
  if (header_words_ > 3) {
    const auto steps = static_cast<uint32_t>(record[values]);
    std::memcpy(&words[at + 3], &steps, sizeof steps);
  }
  std::copy_n(record, values, &words[at + header_words_]);
}

absl::Status FixedTable::RestoreChanged(const TableMetadata& stored, std::span<const float> words) {
  const bool same = stored.steps == optimizer_.lazy &&
                    std::ranges::equal(stored.slots, optimizer_.slots, {}, {}, &SlotSpec::name);
  if (!same || words.size() % changed_words() != 0) {
    return absl::FailedPreconditionError("its rows are those of another optimizer");
  }
  const uint64_t values = columns_[0].words + slot_words_;
  std::vector<bool> changed(rows());
  for (uint64_t at = 0; at + changed_words() <= words.size(); at += changed_words()) {
    uint64_t id = 0;
    uint32_t steps = 0;
    std::memcpy(&id, &words[at], sizeof id);
    if (id < row_begin_ || id - row_begin_ >= rows()) {
      return absl::DataLossError(absl::StrCat("the changed row of id ", id, " is none of its own"));
    }
    if (changed[id - row_begin_]) {
      return absl::DataLossError(absl::StrCat("the changed row of id ", id, " stands twice"));
    }
    changed[id - row_begin_] = true;
    float* const record = RecordOf(id - row_begin_);
    std::copy_n(&words[at + header_words_], values, record);
    if (header_words_ == 3) continue;
    std::memcpy(&steps, &words[at + 3], sizeof steps);
    record[values] = std::min(static_cast<float>(steps), kStepsMax);
  }
  return absl::OkStatus();
}

}  // namespace paracord
