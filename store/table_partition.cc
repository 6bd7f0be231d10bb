#include "store/table_partition.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "config/partitions.h"

namespace paracord {
namespace {

constexpr size_t kHotTold = 4;  // ids of each partition
// An image has the rows that changed alone if they are at most this share of all, or so few. A
// restore holds them beside the table.
constexpr uint64_t kChangedShare = 4;
constexpr uint64_t kChangedMin = 4096;

std::vector<float> DecodedGradient(const Gradient& gradient) {
  std::vector<float> values(gradient.elements());
  Gradient::Reader reader(gradient, 0, values.size());
  for (size_t at = 0; at < values.size();) {
    const std::span<float> room = std::span(values).subspan(at);
    const std::span<const float> next =
        reader.Next(room.first(std::min(room.size(), kFloatsAtOnce)));
    if (next.data() != room.data()) std::ranges::copy(next, room.begin());
    at += next.size();
  }
  return values;
}

uint64_t CandidatesOfShard(const VariableSpec& variable) {
  const uint64_t candidates = variable.table().candidates();
  return (candidates == 0 ? kCandidatesDefault : candidates) / variable.shape(0);
}

}  // namespace

uint64_t EmptyTableBytes(const VariableSpec& variable) {
  return Admission::BytesOf(variable.table().admit_after(), CandidatesOfShard(variable));
}

absl::StatusOr<std::unique_ptr<GrowingTable>> MakeTableOfShard(const VariableSpec& variable,
                                                               const Optimizer& optimizer,
                                                               uint64_t seed) {
  const TableSpec& table = variable.table();
  const uint64_t shards = variable.shape(0);
  const double probability = table.admit_probability();
  GrowingTableOptions options{.variable = variable,
                              .seed = seed,
                              .optimizer = OptimizerFor(variable, optimizer),
                              .admit_after = table.admit_after(),
                              .admit_probability = probability == 0 ? 1 : probability,
                              .candidates = CandidatesOfShard(variable),
                              .expire_batches = table.expire_batches()};
  if (table.rows_max() != 0) options.rows_max = std::max<uint64_t>(table.rows_max() / shards, 1);
  return GrowingTable::Make(std::move(options));
}

TablePartition::TablePartition(Facts facts, uint64_t shards, TableContents contents,
                               std::shared_ptr<PinnedBytes> pinned)
    : Partition(std::move(facts), std::move(pinned)),
      shards_(shards),
      row_elements_(contents.table->row_elements()),
      contents_(std::move(contents)) {}

std::string TablePartition::WhyNotItsRows(const RowIds& ids) const {
  for (const uint64_t id : ids) {
    const uint32_t shard = ShardOfRow(id, shards_);
    if (shard == facts().row_begin) continue;
    return absl::StrCat("row ", id, " is one of shard ", shard, ", not of its shard ",
                        facts().row_begin, " of ", shards_);
  }
  return "";
}

uint64_t TablePartition::resident_bytes() const {
  MutexLock lock(mu_);
  return contents_.table->bytes();
}

bool TablePartition::SetLearningRate(const LearningRate& rate, const PushFence& fence) {
  MutexLock lock(mu_);
  if (fence.over()) return false;
  contents_.table->SetLearningRate(rate);
  return true;
}

Outcome TablePartition::Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                             const PushFence& fence) {
  const std::vector<float> gradient = DecodedGradient(update.gradient);
  MutexLock lock(mu_);
  if (update.rows.has_value()) AwaitRoom(*update.rows);
  if (fence.over()) return {};
  const uint64_t step = contents_.ledger.applied();
  const PartitionLedger::Entry entry = contents_.ledger.Enter(batch, rejected);
  // An update without rows counts as well, since time goes on for the rows that expire.
  if (entry.outcome == PUSH_APPLIED && !rejected && update.rows.has_value()) {
    if (!contents_.table->Update(step, *update.rows, gradient)) contents_.healthy = false;
    pushed_ += update.rows->size();
    hot_.Push(*update.rows);
    ++contents_.updates;
  }
  return {entry.outcome, entry.next, contents_.updates};
}

void TablePartition::AwaitRoom(std::span<const uint64_t> ids) {
  const auto has_room = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    UndoLog* const undo = contents_.table->undo();
    return undo == nullptr || undo->HasRoomFor(ids.size()) ||
           undo->HasRoomFor(contents_.table->RowsToPreserve(ids));
  };
  if (has_room()) return;
  PROBE("ps.push.waits_for_image");
  std::unique_lock<std::mutex> held(mu_.native(), std::adopt_lock);
  const bool room = room_.wait_for(held, std::chrono::milliseconds(push_wait_ms_), has_room);
  held.release();  // the caller unlocks it
  if (!room) contents_.table->undo()->EndFull();
}

uint64_t TablePartition::Pull(ChunkRefs& values) const {
  values.clear();
  MutexLock lock(mu_);
  return contents_.updates;
}

uint64_t TablePartition::PullRows(std::span<const uint64_t> ids, std::span<float> values) const {
  pulled_ += ids.size();
  MutexLock lock(mu_);
  contents_.table->Lookup(ids, values);
  return contents_.updates;
}

Partition::Counts TablePartition::CountsNow() const {
  Counts counts{contents_.ledger, contents_.updates, contents_.healthy, TableCounts()};
  const GrowingTable::Counts table = contents_.table->counts();
  counts.table->set_rows(table.rows - table.stale);
  counts.table->set_bytes(contents_.table->bytes());
  counts.table->set_admitted(table.created);
  counts.table->set_expired(table.expired);
  counts.table->set_evicted(table.evicted);
  counts.table->set_dropped(table.dropped);
  counts.table->set_pulled(pulled_);
  counts.table->set_pushed(pushed_);
  for (const HotIds::Hot& hot : hot_.Top(kHotTold)) {
    HotId& told = *counts.table->add_hot();
    told.set_id(hot.id);
    told.set_share(hot.share);
  }
  return counts;
}

Partition::Counts TablePartition::GetCounts() const {
  MutexLock lock(mu_);
  return CountsNow();
}

class TableImage : public PartitionImage {
 public:
  TableImage(const TablePartition& partition, ImageOrder order)
      : partition_(partition), order_(std::move(order)) {
    MutexLock lock(partition.mu_);
    records_ = &partition.contents_.table->records();
    memory_ = &records_->memory();
  }
  ~TableImage() override { End(); }

  void Take() override {
    for (uint64_t rows_max = Records(); undo_ == nullptr; rows_max = Records()) {
      rows_max += rows_max / 16 + 1024;  // that may come meanwhile
      auto undo = std::make_shared<UndoLog>(*memory_, rows_max, order_.snapshots);
      std::shared_ptr<UndoLog> replaced;  // whose memory is given back without the lock
      MutexLock lock(partition_.mu_);
      if (memory_->rows() > rows_max) continue;
      undo_ = undo;
      replaced = partition_.contents_.table->BeginImage(std::move(undo));
      partition_.push_wait_ms_ = order_.push_wait_ms;
      partition_.room_.notify_all();
      TakeCounts();
    }
  }
  const Partition::Counts& counts() const override { return counts_; }
  std::vector<TensorInfo> tensors() const override {
    const std::string& name = partition_.facts().name;
    constexpr uint64_t kWord = sizeof(float);
    std::vector<TensorInfo> tensors = {{.name = SlotTensorName(name, kRowsSlot),
                                        .dtype = "U8",
                                        .shape = {rows_, record_words_ * kWord}},
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
    for (uint64_t group = 0; group < undo_->groups(); ++group) {
      RETURN_IF_ERROR(Named(undo_->Read(group, words)));
      if (undo_->Pass(group)) Recycle();
      records_->KeepLive(words, table_.now, ages);
      written += words.size() / record_words_;
      if (written > rows_) break;
      RETURN_IF_ERROR(
          append({reinterpret_cast<const char*>(words.data()), words.size() * sizeof(float)}));
    }
    if (written != rows_) return Forget(written);
    End();
    RETURN_IF_ERROR(append({reinterpret_cast<const char*>(candidates_.data()),
                            candidates_.size() * sizeof(uint32_t)}));
    return append(
        {reinterpret_cast<const char*>(removed_.data()), removed_.size() * sizeof(uint64_t)});
  }

 private:
  void TakeCounts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition_.mu_) {
    GrowingTable& table = *partition_.contents_.table;
    counts_ = partition_.CountsNow();
    candidates_ = table.candidates();
    record_words_ = table.record_words();
    table_ = {.now = table.now(),
              .steps = table.counts_steps(),
              .slots = {},
              .row_slots = {},
              .admitted = counts_.table->admitted(),
              .expired = counts_.table->expired(),
              .evicted = counts_.table->evicted(),
              .dropped = counts_.table->dropped()};
    for (const SlotSpec& slot : table.slots()) {
      table_.slots.push_back(slot.name);
      if (slot.of_rows) table_.row_slots.push_back(slot.name);
    }
    const uint64_t rows = table.counts().rows;  // those that have expired, too
    rows_ = rows;
    const auto since = table.changes().SinceImage(order_.base);
    if (since.has_value() && since->changed <= std::max(kChangedMin, rows / kChangedShare)) {
      table_.since = {since->now, since->updates, order_.base->ToString()};
      table_.rows = rows;
      rows_ = since->changed;
      removed_.assign(since->removed.begin(), since->removed.end());
    }
    table.changes().Mark(order_.own, order_.base, table_.now, counts_.updates, rows);
  }

  uint64_t Records() const {
    MutexLock lock(partition_.mu_);
    return memory_->rows();
  }

  absl::Status Named(const absl::Status& status) const {
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat(partition_.facts().name, ": ", std::string(status.message())));
  }

  void Recycle() {
    MutexLock lock(partition_.mu_);
    undo_->Recycle();
    partition_.room_.notify_all();
  }

  void End() {
    const std::shared_ptr<UndoLog> own = std::move(undo_);
    std::shared_ptr<UndoLog> ended;  // its memory is given back without the lock
    if (own == nullptr) return;
    MutexLock lock(partition_.mu_);
    GrowingTable& table = *partition_.contents_.table;
    if (table.undo() == own.get()) ended = table.BeginImage(nullptr);
    partition_.room_.notify_all();
  }

  // After 2^31 batches a row that was never touched again looks as if it had been. The next
  // checkpoint has all rows then.
  absl::Status Forget(uint64_t written) const {
    MutexLock lock(partition_.mu_);
    partition_.contents_.table->changes().Forget();
    return absl::AbortedError(absl::StrCat(partition_.facts().name, ": ", written,
                                           " rows have changed, and ", rows_, " were counted"));
  }

  const TablePartition& partition_;
  const ImageOrder order_;
  uint64_t rows_ = 0;  // that are written
  std::vector<uint64_t> removed_;
  std::shared_ptr<UndoLog> undo_;  // as the table has it while the image is open; null: not taken
  const RowRecords* records_ = nullptr;
  const RowMemory* memory_ = nullptr;
  uint64_t record_words_ = 0;
  Partition::Counts counts_;
  TableMetadata table_;
  std::vector<uint32_t> candidates_;
};

std::unique_ptr<PartitionImage> TablePartition::NewImage(bool /*copied*/,
                                                         const ImageOrder& order) const {
  return std::make_unique<TableImage>(*this, order);
}

}  // namespace paracord
