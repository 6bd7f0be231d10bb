// Images of tables (TablePartition::NewImage): the rows in a checkpoint.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "store/table_partition.h"

namespace paracord {
namespace {

// Whether the changed rows are few enough for an image of these alone: at most a quarter of all
// rows, or a few thousand. A restore holds changed rows in memory beside the table.
bool FewChanged(uint64_t changed, uint64_t rows) {
  return changed <= std::max<uint64_t>(4096, rows / 4);
}

std::string_view BytesOfWords(const auto& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0])};
}

void NameSlots(const Optimizer& optimizer, TableMetadata& table) {
  for (const SlotSpec& slot : optimizer.slots) {
    table.slots.push_back(slot.name);
    if (slot.of_rows) table.row_slots.push_back(slot.name);
  }
}

}  // namespace

// The common part of both images: the log from which they read rows.
class TableImage : public PartitionImage {
 public:
  TableImage(const TablePartition& partition, ImageOrder order)
      : partition_(partition), order_(std::move(order)) {
    MutexLock lock(partition.mu_);
    memory_ = &partition.store().memory();
  }
  ~TableImage() override { End(); }
  TableImage(const TableImage&) = delete;
  TableImage& operator=(const TableImage&) = delete;

  void Refer() override {
    for (bool referred = false; !referred;) {
      Prepare();
      MutexLock lock(partition_.mu_);
      referred = memory_->rows() <= fresh_log_->rows_max();
      if (referred) ReferHeld();
    }
    replaced_.reset();
  }
  void Prepare() override {
    const uint64_t rows = Records();
    const uint64_t rows_max = rows + rows / 16 + 1024;  // with rows added meanwhile
    fresh_log_ = std::make_shared<UndoLog>(*memory_, rows_max, order_.snapshots);
  }
  void ReferHeld() override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // While the image waited for a state, the table may have outgrown the prepared log.
    if (const uint64_t rows = memory_->rows(); rows > fresh_log_->rows_max()) {
      fresh_log_ = std::make_shared<UndoLog>(*memory_, rows, order_.snapshots);
    }
    undo_ = std::exchange(fresh_log_, nullptr);
    replaced_ = partition_.store().BeginImage(undo_);
    partition_.push_wait_ms_ = order_.push_wait_ms;
    partition_.room_.notify_all();
    counts_ = partition_.CountsNow();
    Begun();
  }
  void Copy() override { replaced_.reset(); }
  const Partition::Counts& counts() const override { return counts_; }

 protected:
  // Called when the image has begun.
  virtual void Begun() ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition_.mu_) = 0;

  uint64_t groups() const { return undo_->groups(); }
  // Reads words of a group's rows (UndoLog::Read).
  absl::Status Read(uint64_t group, uint64_t first, uint64_t count, std::vector<float>& words,
                    const uint64_t* wanted = nullptr) {
    const absl::Status read = undo_->Read(group, first, count, words, wanted);
    if (read.ok()) return read;
    return absl::Status(read.code(),
                        absl::StrCat(partition_.facts().name, ": ", std::string(read.message())));
  }
  // Says that a group will not be read again.
  void Pass(uint64_t group) {
    if (!undo_->Pass(group)) return;
    MutexLock lock(partition_.mu_);
    undo_->Recycle();
    partition_.room_.notify_all();
  }

  void End() {
    const std::shared_ptr<UndoLog> own = std::move(undo_);
    std::shared_ptr<UndoLog> ended;  // its memory is given back without the lock
    if (own == nullptr) return;
    MutexLock lock(partition_.mu_);
    if (partition_.store().undo() == own.get()) ended = partition_.store().BeginImage(nullptr);
    partition_.room_.notify_all();
  }

  const TablePartition& partition_;
  const ImageOrder order_;
  const RowMemory* memory_ = nullptr;
  Partition::Counts counts_;

 private:
  uint64_t Records() const {
    MutexLock lock(partition_.mu_);
    return memory_->rows();
  }

  std::shared_ptr<UndoLog> fresh_log_;  // prepared, not yet used
  std::shared_ptr<UndoLog> undo_;       // the table's log while the image is open; null: not taken
  // Of the image before, whose memory is given back without the lock.
  std::shared_ptr<UndoLog> replaced_;
};

class GrowingImage : public TableImage {
 public:
  using TableImage::TableImage;

  std::vector<TensorInfo> tensors() const override {
    const std::string& name = partition_.facts().name;
    constexpr uint64_t kWord = sizeof(float);
    std::vector<TensorInfo> tensors = {{.name = SlotTensorName(name, kRowsSlot),
                                        .dtype = "U8",
                                        .shape = {rows_, memory_->row_floats() * kWord}},
                                       {.name = SlotTensorName(name, kCandidatesSlot),
                                        .dtype = "U8",
                                        .shape = {candidates_.size(), kWord}}};
    if (!table_.since.has_value()) return tensors;
    tensors.push_back({.name = SlotTensorName(name, kRemovedSlot),
                       .dtype = "U8",
                       .shape = {removed_.size(), sizeof(uint64_t)}});
    return tensors;
  }
  PartitionMetadata metadata() const override {
    return {.updates = counts_.updates, .healthy = counts_.healthy, .table = table_};
  }
  absl::Status Write(const AppendFn& append) override {
    const uint64_t ages =
        table_.since.has_value() ? ChangedBound(table_.since->now, table_.now) : UINT64_MAX;
    uint64_t written = 0;
    std::vector<float> words;
    for (uint64_t group = 0; group < groups(); ++group) {
      RETURN_IF_ERROR(Read(group, 0, memory_->row_floats(), words));
      Pass(group);
      records_->KeepLive(words, table_.now, ages);
      written += words.size() / memory_->row_floats();
      if (written > rows_) break;
      RETURN_IF_ERROR(append(BytesOfWords(words)));
    }
    if (written != rows_) return Forget(written);
    End();
    RETURN_IF_ERROR(append(BytesOfWords(candidates_)));
    return append(BytesOfWords(removed_));
  }

 private:
  void Begun() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition_.mu_) {
    GrowingTable& table = *partition_.contents_.table;
    records_ = &table.records();
    candidates_ = table.candidates();
    table_ = {.now = table.now(),
              .steps = table.counts_steps(),
              .slots = {},
              .row_slots = {},
              .admitted = counts_.table->admitted(),
              .expired = counts_.table->expired(),
              .evicted = counts_.table->evicted(),
              .dropped = counts_.table->dropped()};
    NameSlots(table.optimizer(), table_);
    const uint64_t rows = table.counts().rows;  // with expired ones
    rows_ = rows;
    const auto since = table.changes().SinceImage(order_.base);
    if (since.has_value() && FewChanged(since->changed, rows)) {
      table_.since = {since->now, since->updates, order_.base->ToString()};
      table_.rows = rows;
      rows_ = since->changed;
      removed_.assign(since->removed.begin(), since->removed.end());
    }
    table.changes().Mark(order_.own, order_.base, table_.now, counts_.updates, rows);
  }

  // After 2^31 batches the touch of a row seems recent again: the counts no longer match. The next
  // checkpoint then has all rows.
  absl::Status Forget(uint64_t written) const {
    MutexLock lock(partition_.mu_);
    partition_.contents_.table->changes().Forget();
    return absl::AbortedError(absl::StrCat(partition_.facts().name, ": ", written,
                                           " rows have changed, and ", rows_, " were counted"));
  }

  uint64_t rows_ = 0;  // rows to write
  std::vector<uint64_t> removed_;
  const RowRecords* records_ = nullptr;
  TableMetadata table_;
  std::vector<uint32_t> candidates_;
};

// Values and slots are separate tensors: the image goes through the rows once for each. Changed
// rows alone are written as records, like a growing table's.
class FixedImage : public TableImage {
 public:
  FixedImage(const TablePartition& partition, const ImageOrder& order)
      : TableImage(partition, order) {
    MutexLock lock(partition.mu_);
    table_ = partition.contents_.fixed.get();
  }

  std::vector<TensorInfo> tensors() const override {
    const Partition::Facts& facts = partition_.facts();
    if (since_.has_value()) {
      return {{.name = SlotTensorName(facts.name, kRowsSlot),
               .dtype = "U8",
               .shape = {rows_, table_->changed_words() * sizeof(float)}}};
    }
    std::vector<TensorInfo> tensors = {{.name = facts.name, .shape = facts.shape}};
    for (const SlotSpec& slot : table_->slots()) {
      const std::vector<uint64_t> of_rows = {facts.shape[0]};
      tensors.push_back({.name = SlotTensorName(facts.name, slot.name),
                         .shape = slot.of_rows ? of_rows : facts.shape});
    }
    return tensors;
  }
  PartitionMetadata metadata() const override {
    PartitionMetadata metadata{.updates = counts_.updates, .healthy = counts_.healthy};
    if (!since_.has_value()) return metadata;
    TableMetadata& table = metadata.table.emplace();
    table.fixed = true;
    table.steps = table_->optimizer().lazy;
    table.rows = table_->rows();
    table.since = since_;
    NameSlots(table_->optimizer(), table);
    return metadata;
  }
  absl::Status Write(const AppendFn& append) override {
    RETURN_IF_ERROR(since_.has_value() ? WriteChanged(append) : WriteAll(append));
    End();
    return absl::OkStatus();
  }

 private:
  void Prepare() override {
    TableImage::Prepare();
    if (order_.own.has_value()) fresh_ = table_->changes().NewBits();
    if (order_.base.has_value()) changed_.reserve(table_->rows() / 64 + 1);
  }
  void Begun() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition_.mu_) {
    ChangedRows& changes = table_->changes();
    const auto since = changes.SinceImage(order_.base, changed_);
    if (since.has_value() && FewChanged(since->changed, table_->rows())) {
      since_ = {0, since->updates, order_.base->ToString()};
      rows_ = since->changed;
    }
    // An image outside of a chain of checkpoints must not reset the bits of changed rows, which the
    // next checkpoint of the chain needs.
    if (order_.own.has_value() || order_.base.has_value()) {
      changes.Mark(order_.own, order_.base, counts_.updates, std::move(fresh_));
    }
  }

  absl::Status WriteAll(const AppendFn& append) {
    std::vector<float> words;
    for (const FixedTable::Column& column : table_->columns()) {
      const bool last = &column == &table_->columns().back();
      for (uint64_t group = 0; group < groups(); ++group) {
        RETURN_IF_ERROR(Read(group, column.word, column.words, words));
        if (last) Pass(group);
        RETURN_IF_ERROR(append(BytesOfWords(words)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteChanged(const AppendFn& append) {
    const uint64_t each = uint64_t{1} << memory_->group_shift(), width = memory_->row_floats();
    std::vector<float> words, changed;
    for (uint64_t group = 0; group < groups(); ++group) {
      const uint64_t begin = group * each, end = std::min(begin + each, table_->rows());
      const auto is_changed = [&](uint64_t row) {
        return (changed_[row / 64] >> (row % 64) & 1) != 0;
      };
      uint64_t row = begin;
      while (row < end && !is_changed(row)) ++row;
      if (row < end) RETURN_IF_ERROR(Read(group, 0, width, words, changed_.data()));
      Pass(group);
      changed.clear();
      for (; row < end; ++row) {
        if (is_changed(row)) table_->AppendChanged(row, &words[(row - begin) * width], changed);
      }
      if (!changed.empty()) RETURN_IF_ERROR(append(BytesOfWords(changed)));
    }
    return absl::OkStatus();
  }

  FixedTable* table_ = nullptr;  // without the lock only what never changes is used
  ChangedRows::Bits fresh_;
  std::vector<uint64_t> changed_;  // a bit a row
  std::optional<TableMetadata::Since> since_;
  uint64_t rows_ = 0;  // changed rows
};

std::unique_ptr<PartitionImage> TablePartition::NewImage(bool /*copied*/,
                                                         const ImageOrder& order) const {
  if (growing_) return std::make_unique<GrowingImage>(*this, order);
  return std::make_unique<FixedImage>(*this, order);
}

}  // namespace paracord
