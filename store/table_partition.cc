#include "store/table_partition.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/data_plan.h"
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
  bool decoded() const { return !decoded_.empty(); }

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
                                                               uint64_t seed,
                                                               uint64_t round_batches) {
  const TableSpec& table = variable.table();
  const uint64_t shards = variable.shape(0);
  const double probability = table.admit_probability();
  GrowingTableOptions options{.variable = variable,
                              .seed = seed,
                              .optimizer = OptimizerFor(variable, optimizer),
                              .admit_after = table.admit_after(),
                              .admit_probability = probability == 0 ? 1 : probability,
                              .candidates = CandidatesOfShard(variable),
                              .expire_batches = DivideUp(table.expire_batches(), round_batches)};
  if (table.rows_max() != 0) options.rows_max = std::max<uint64_t>(table.rows_max() / shards, 1);
  return GrowingTable::Make(std::move(options));
}

TablePartition::TablePartition(Facts facts, uint64_t shards, TableContents contents,
                               std::shared_ptr<PinnedBytes> pinned,
                               const std::optional<RoundsOptions>& rounds)
    : Partition(std::move(facts), std::move(pinned)),
      shards_(shards),
      growing_(contents.table != nullptr),
      row_elements_(growing_ ? contents.table->row_elements() : contents.fixed->row_elements()),
      lazy_(growing_ || contents.fixed->optimizer().lazy),
      contents_(std::move(contents)),
      rounds_(MakeRounds(rounds)),
      round_rows_(rounds.has_value() ? rounds->rows : nullptr) {
  if (!rounds.has_value() || !rounds->keeps_before) return;
  before_.emplace(row_elements_);
  store().TellBefore(&*before_);
}

std::unique_ptr<PartitionRounds> TablePartition::MakeRounds(
    const std::optional<RoundsOptions>& rounds) const {
  if (!rounds.has_value()) return nullptr;
  const RoundSum::Shape shape{.elements = facts().bytes / sizeof(float),
                              .row_elements = row_elements_,
                              .first_row = growing_ ? 0 : facts().row_begin};
  return std::make_unique<PartitionRounds>(*rounds, shape);
}

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

TablePartition::~TablePartition() {
  if (round_rows_ != nullptr) round_rows_->Subtract(counted_);
}

// Up to three copies of each row: in the sum, merged or alone; decoded; and before the round.
uint64_t TablePartition::RoundBytesOf(const PartitionUpdate& update) const {
  if (rounds_ == nullptr || update.none()) return 0;
  const uint64_t elements = update.gradient.elements();
  const uint64_t row_bytes = row_elements_ * sizeof(float) + sizeof(uint64_t);
  return 3 * std::max(elements / row_elements_, uint64_t{1}) * row_bytes;
}

void TablePartition::ReleaseRoundBytes() {
  if (rounds_ == nullptr) return;
  MutexLock lock(mu_);
  rounds_->ReleaseSpare();
  if (before_.has_value()) before_->ReleaseSpare();
  CountRound();
}

void TablePartition::CountRound() {
  if (round_rows_ == nullptr) return;
  uint64_t bytes = rounds_->sum().bytes();
  if (before_.has_value()) {
    uint64_t rows = 0;
    rounds_->sum().ForSums(
        [&](const RoundSum::Buffer& sum) { rows += sum.rows.values.size() / row_elements_; });
    bytes += std::max(before_->bytes(), rows * (row_elements_ * sizeof(float) + sizeof(uint64_t)));
  }
  round_rows_->Add(bytes);
  round_rows_->Subtract(std::exchange(counted_, bytes));
}

bool TablePartition::SetLearningRate(const LearningRate& rate, const PushFence& fence) {
  MutexLock lock(mu_);
  if (fence.over()) return false;
  store().SetLearningRate(rate);
  return true;
}

Outcome TablePartition::Push(const PlanBatch& batch, bool rejected, const PartitionUpdate& update,
                             const PushFence& fence) {
  if (rounds_ != nullptr) return PushLane(batch, rejected, update, fence);
  const FlatGradient gradient(update.gradient);
  MutexLock lock(mu_);
  AwaitRoom([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return HasRoomFor(update); });
  if (fence.over()) return {};
  const PartitionLedger::Entry entry = contents_.ledger.Enter(batch, rejected);
  if (entry.outcome == PUSH_APPLIED && !rejected) TakeStep(update, gradient.values());
  return {entry.outcome, entry.next, contents_.updates};
}

Outcome TablePartition::PushLane(const PlanBatch& batch, bool rejected,
                                 const PartitionUpdate& update, const PushFence& fence) {
  const FlatGradient flat(update.gradient);
  PartitionUpdate decoded;
  if (flat.decoded()) decoded = {Gradient::Over(flat.values()), update.rows};
  const PartitionUpdate& pushed = flat.decoded() ? decoded : update;
  std::unique_ptr<RoundSum::Buffer> fresh = rounds_->MakeBuffer();
  MutexLock lock(mu_);
  AwaitRoom([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return HasRoomForRound(batch, update); });
  if (fence.over()) return {};
  const PartitionLedger::Entry entry =
      rounds_->Take(fence.generation(), batch, rejected, pushed, contents_.ledger, fresh);
  const bool taken = entry.outcome == PUSH_TAKEN || entry.outcome == PUSH_APPLIED;
  if (taken && !rejected && before_.has_value()) before_->Drop();
  if (entry.outcome == PUSH_APPLIED) ApplyRound();
  CountRound();
  return {entry.outcome, entry.next, contents_.updates};
}

void TablePartition::ApplyRound() {
  if (before_.has_value()) before_->Keep(contents_.updates);
  if (rounds_->Enter(contents_.ledger)) {
    if (!rounds_->MeanIsFinite()) contents_.healthy = false;
    const PartitionUpdate& mean = rounds_->Mean();
    TakeStep(mean, mean.gradient.Flat());
  }
  rounds_->Next();
}

bool TablePartition::TakeNorms(const RoundNorms& norms, const PushFence& fence) {
  if (rounds_ == nullptr) return false;
  MutexLock lock(mu_);
  AwaitRoom([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !rounds_->waits_for_norms() || HasRoomFor(rounds_->Mean());
  });
  if (fence.over() || !rounds_->Clip(fence.generation(), norms)) return false;
  ApplyRound();
  CountRound();
  return true;
}

std::optional<Partition::MeanSquares> TablePartition::SquaresOfMean(uint64_t generation) const {
  if (rounds_ == nullptr) return {};
  MutexLock lock(mu_);
  return rounds_->SquaresOfMean(generation);
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

bool TablePartition::HasRoomFor(const PartitionUpdate& update) const {
  UndoLog* const undo = store().undo();
  if (undo == nullptr || update.none()) return true;
  if (!update.rows.has_value()) return undo->HasRoomFor(contents_.fixed->rows());
  return undo->HasRoomFor(update.rows->size()) ||
         undo->HasRoomFor(store().RowsToPreserve(*update.rows));
}

// Rows of several lanes count as often as there are sums with them.
bool TablePartition::HasRoomForRound(const PlanBatch& batch, const PartitionUpdate& update) const {
  UndoLog* const undo = store().undo();
  if (undo == nullptr || !rounds_->Completes(batch)) return true;
  bool all = !update.none() && !update.rows.has_value();
  uint64_t rows = update.rows.has_value() ? update.rows->size() : 0;
  rounds_->sum().ForSums([&](const RoundSum::Buffer& sum) {
    all = all || sum.all;
    rows += sum.rows.ids.size();
  });
  if (all) return undo->HasRoomFor(contents_.fixed->rows());
  if (undo->HasRoomFor(rows)) return true;
  uint64_t preserved = update.rows.has_value() ? store().RowsToPreserve(*update.rows) : 0;
  rounds_->sum().ForSums([&](const RoundSum::Buffer& sum) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    preserved += store().RowsToPreserve(sum.rows.ids);
  });
  return undo->HasRoomFor(preserved);
}

template <class Fn>
void TablePartition::AwaitRoom(const Fn& has_room) {
  if (has_room()) return;
  std::unique_lock<std::mutex> held(mu_.native(), std::adopt_lock);
  const bool room = room_.wait_for(held, std::chrono::milliseconds(push_wait_ms_), has_room);
  held.release();  // the caller holds and unlocks mu_
  if (!room) store().undo()->EndFull();
}

absl::StatusOr<bool> TablePartition::IsBefore(AtState state) const {
  if (rounds_ == nullptr) return false;
  return rounds_->IsBefore(facts(), state, keeps_before());
}

absl::StatusOr<uint64_t> TablePartition::PullAt(AtState state, ChunkRefs& values) const {
  values.clear();
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const bool before, IsBefore(state));
  return before ? before_->updates() : contents_.updates;
}

absl::StatusOr<uint64_t> TablePartition::PullRowsAt(AtState state, std::span<const uint64_t> ids,
                                                    std::span<float> values) const {
  pulled_ += ids.size();
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const bool before, IsBefore(state));
  if (before) {
    store().LookupBefore(*before_, ids, values);
    return before_->updates();
  }
  store().Lookup(ids, values);
  return contents_.updates;
}

absl::StatusOr<uint64_t> TablePartition::PullRangeAt(AtState state, uint64_t first,
                                                     std::span<float> values) const {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const bool before, IsBefore(state));
  if (before) {
    contents_.fixed->ReadBefore(*before_, first, values);
    return before_->updates();
  }
  contents_.fixed->Read(first, values);
  return contents_.updates;
}

Partition::Counts TablePartition::CountsNow() const {
  Counts counts{
      .ledger = contents_.ledger, .updates = contents_.updates, .healthy = contents_.healthy};
  counts.learning_rate = NewestRate(store().optimizer().learning_rate, contents_.steps);
  if (rounds_ != nullptr) counts.state = rounds_->state();
  counts.serves_before = keeps_before();
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

absl::StatusOr<Partition::Lack> TablePartition::LackOf(const DataPlan& plan, uint64_t state) const {
  MutexLock lock(mu_);
  if (rounds_ == nullptr) return Lack{MissingLanes(contents_.ledger, plan, state)};
  return rounds_->LackOf(facts(), state, keeps_before());
}

Partition::Counts TablePartition::GetCounts() const {
  MutexLock lock(mu_);
  return CountsNow();
}

absl::Status TablePartition::ReferAt(uint64_t state, PartitionImage& image,
                                     std::function<void()> referred) {
  if (rounds_ == nullptr) return Partition::ReferAt(state, image, std::move(referred));
  image.Prepare();
  MutexLock lock(mu_);
  return rounds_->ReferAt(facts(), state, image, std::move(referred));
}

void TablePartition::ForgetImage() {
  if (rounds_ == nullptr) return;
  MutexLock lock(mu_);
  rounds_->ForgetImage();
}

}  // namespace paracord
