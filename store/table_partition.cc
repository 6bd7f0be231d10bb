#include "store/table_partition.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "store/round_gate.h"

namespace paracord {
namespace {

constexpr size_t kHotTold = 4;  // ids of each partition
// The elements of a gradient side by side: where they are, or decoded.
class FlatGradient {
 public:
  explicit FlatGradient(const Gradient& gradient) : values_(gradient.Flat()) {
    if (!values_.empty() || gradient.empty()) return;
    decoded_.resize(gradient.elements());
    Gradient::Reader reader(gradient, 0, decoded_.size());
    for (size_t at = 0; at < decoded_.size();) {
      const std::span<float> room = std::span(decoded_).subspan(at);
      const std::span<const float> next =
          reader.Next(room.first(std::min(room.size(), kFloatsAtOnce)));
      if (next.data() != room.data()) std::ranges::copy(next, room.begin());
      at += next.size();
    }
    values_ = decoded_;
  }
  std::span<const float> values() const { return values_; }

 private:
  std::span<const float> values_;
  std::vector<float> decoded_;
};

uint64_t CandidatesOfShard(const VariableSpec& variable) {
  const uint64_t candidates = variable.table().candidates();
  return (candidates == 0 ? kCandidatesDefault : candidates) / variable.shape(0);
}

}  // namespace

bool KeepsFixedRows(const VariableSpec& variable, const Optimizer& own) {
  return variable.has_table() && !IsGrowing(variable) &&
         (!variable.trainable() || FixedTable::Fits(own));
}

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
      growing_(contents.table != nullptr),
      row_elements_(growing_ ? contents.table->row_elements() : contents.fixed->row_elements()),
      lazy_(growing_ || contents.fixed->optimizer().lazy),
      contents_(std::move(contents)) {}

RowStore& TablePartition::store() const {
  if (growing_) return *contents_.table;
  return *contents_.fixed;
}

std::string TablePartition::WhyNotItsRows(const RowIds& ids) const {
  if (!growing_) {
    const uint64_t begin = facts().row_begin, end = begin + facts().shape[0];
    if (ids.empty() || (ids.front() >= begin && ids.back() < end)) return "";
    const uint64_t row = ids.front() < begin ? ids.front() : *std::ranges::lower_bound(ids, end);
    return absl::StrCat("row ", row, " is not one of its rows [", begin, ", ", end, ")");
  }
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
  return store().bytes();
}

bool TablePartition::SetLearningRate(const LearningRate& rate, const PushFence& fence) {
  MutexLock lock(mu_);
  if (fence.over()) return false;
  store().SetLearningRate(rate);
  return true;
}

Outcome TablePartition::Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                             const PushFence& fence) {
  const FlatGradient gradient(update.gradient);
  MutexLock lock(mu_);
  AwaitRoom(update);
  if (fence.over()) return {};
  const PartitionLedger::Entry entry = contents_.ledger.Enter(batch, rejected);
  if (entry.outcome == PUSH_APPLIED && !rejected) TakeStep(update, gradient.values());
  return {entry.outcome, entry.next, contents_.updates};
}

void TablePartition::TakeStep(const PartitionUpdate& update, std::span<const float> gradient) {
  const uint64_t step = contents_.steps++;
  if (update.none()) return;
  // An update of no rows counts as well, since time goes on for the rows that expire.
  if (!Apply(step, update, gradient)) contents_.healthy = false;
  ++contents_.updates;
}

bool TablePartition::Apply(uint64_t step, const PartitionUpdate& update,
                           std::span<const float> gradient) {
  if (!update.rows.has_value()) return contents_.fixed->UpdateAll(step, gradient);
  if (growing_) {
    pushed_ += update.rows->size();
    hot_.Push(*update.rows);
  }
  return store().Update(step, *update.rows, gradient);
}

void TablePartition::AwaitRoom(const PartitionUpdate& update) {
  const auto has_room = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    UndoLog* const undo = store().undo();
    if (undo == nullptr || update.none()) return true;
    if (!update.rows.has_value()) return undo->HasRoomFor(contents_.fixed->rows());
    return undo->HasRoomFor(update.rows->size()) ||
           undo->HasRoomFor(store().RowsToPreserve(*update.rows));
  };
  if (has_room()) return;
  std::unique_lock<std::mutex> held(mu_.native(), std::adopt_lock);
  const bool room = room_.wait_for(held, std::chrono::milliseconds(push_wait_ms_), has_room);
  held.release();  // the caller unlocks it
  if (!room) store().undo()->EndFull();
}

uint64_t TablePartition::Pull(ChunkRefs& values) const {
  values.clear();
  MutexLock lock(mu_);
  return contents_.updates;
}

uint64_t TablePartition::PullRows(std::span<const uint64_t> ids, std::span<float> values) const {
  pulled_ += ids.size();
  MutexLock lock(mu_);
  store().Lookup(ids, values);
  return contents_.updates;
}

uint64_t TablePartition::PullRange(uint64_t first, std::span<float> values) const {
  MutexLock lock(mu_);
  contents_.fixed->Read(first, values);
  return contents_.updates;
}

Partition::Counts TablePartition::CountsNow() const {
  Counts counts{contents_.ledger, contents_.updates, contents_.healthy, {}};
  if (!growing_) return counts;
  counts.table.emplace();
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

std::vector<uint32_t> TablePartition::MissingLanes(const DataPlan& plan, uint64_t state) const {
  MutexLock lock(mu_);
  return paracord::MissingLanes(contents_.ledger, plan, state);
}

Partition::Counts TablePartition::GetCounts() const {
  MutexLock lock(mu_);
  return CountsNow();
}

}  // namespace paracord
