#include "store/ledger.h"

#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "common/status_macros.h"
#include "config/data_plan.h"

namespace paracord {
namespace {

// Far above any job, and far below where epoch * splits could overflow.
constexpr uint64_t kSplitsMax = uint64_t{1} << 56;

// Checks the counts.
absl::Status AddUp(const Ledger& ledger, const DataPlan& plan) {
  uint64_t batches = 0;
  for (const SplitInterval& interval : ledger.finished()) {
    const std::optional<uint64_t> before = BatchesOfFirst(plan, interval.first());
    const std::optional<uint64_t> after = BatchesOfFirst(plan, interval.last() + 1);
    if (!before.has_value() || !after.has_value() ||
        __builtin_add_overflow(batches, *after - *before, &batches)) {
      return absl::DataLossError("ledger: a split number is too large");
    }
  }
  for (const OpenSplit& split : ledger.open()) batches += split.next();
  uint64_t entered = 0;
  if (ledger.steps() > ledger.applied()) {
    return absl::DataLossError(absl::StrCat("ledger: its ", ledger.steps(),
                                            " steps are more than the ", ledger.applied(),
                                            " batches that were applied"));
  }
  if (__builtin_add_overflow(ledger.applied(), ledger.rejected(), &entered) || entered != batches) {
    return absl::DataLossError(absl::StrCat("ledger: ", ledger.applied(), " applied and ",
                                            ledger.rejected(), " rejected are not its ", batches,
                                            " batches"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanBatch> FindBatch(const DataPlan& plan, const BatchId& id) {
  RETURN_IF_ERROR(CheckDataPlan(plan));
  const uint32_t batches = BatchesInSplit(plan, id.split());
  if (id.batch() >= batches) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", id.batch(), " of split ", id.split(),
                                                   " is not in the plan: ", SplitsPerEpoch(plan),
                                                   " splits, ", batches, " batches in this one"));
  }
  PlanBatch batch{.split = 0, .batch = id.batch(), .split_batches = batches};
  if (__builtin_mul_overflow(id.epoch(), SplitsPerEpoch(plan), &batch.split) ||
      batch.split >= kSplitsMax) {
    return absl::InvalidArgumentError(absl::StrCat("epoch ", id.epoch(), " is too large"));
  }
  batch.split += id.split();
  return batch;
}

bool PartitionLedger::IsFinished(uint64_t split) const {
  const auto after = finished_.upper_bound(split);
  return after != finished_.begin() && std::prev(after)->second >= split;
}

uint32_t PartitionLedger::Next(const PlanBatch& batch) const {
  if (IsFinished(batch.split)) return batch.split_batches;
  const auto it = open_.find(batch.split);
  return it == open_.end() ? 0 : it->second;
}

uint64_t PartitionLedger::FirstUnfinished() const {
  const auto first = finished_.begin();
  return first != finished_.end() && first->first == 0 ? first->second + 1 : 0;
}

PartitionLedger::Entry PartitionLedger::Enter(const PlanBatch& batch, bool rejected) {
  const uint32_t next = Next(batch);
  if (batch.batch < next) PROBE("ps.push.already_applied");
  if (batch.batch > next) PROBE("ps.push.gap");
  if (batch.batch < next) return {PUSH_ALREADY_APPLIED, next};
  if (batch.batch > next) return {PUSH_GAP, next};
  ++(rejected ? rejected_ : applied_);
  if (batch.batch + 1 == batch.split_batches) {
    open_.erase(batch.split);
    Finish(batch.split);
  } else {
    open_[batch.split] = batch.batch + 1;
  }
  return {PUSH_APPLIED, batch.batch + 1};
}

void PartitionLedger::Finish(uint64_t split) {
  uint64_t first = split;
  uint64_t last = split;
  const auto after = finished_.upper_bound(split);
  if (after != finished_.begin() && std::prev(after)->second + 1 == split) {
    first = std::prev(after)->first;
  }
  if (after != finished_.end() && after->first == split + 1) {
    last = after->second;
    finished_.erase(after);
  }
  finished_[first] = last;
}

Ledger PartitionLedger::ToProto(bool intervals) const {
  Ledger ledger;
  ledger.set_applied(applied_);
  ledger.set_rejected(rejected_);
  ledger.set_steps(steps_);
  if (!intervals) return ledger;
  for (const auto& [first, last] : finished_) {
    SplitInterval* interval = ledger.add_finished();
    interval->set_first(first);
    interval->set_last(last);
  }
  for (const auto& [split, next] : open_) {
    OpenSplit* open = ledger.add_open();
    open->set_split(split);
    open->set_next(next);
  }
  return ledger;
}

absl::StatusOr<PartitionLedger> PartitionLedger::FromProto(const Ledger& ledger,
                                                           const DataPlan& plan) {
  RETURN_IF_ERROR(CheckDataPlan(plan));
  PartitionLedger result;
  std::optional<uint64_t> before;  // the last finished split so far
  for (const SplitInterval& interval : ledger.finished()) {
    const bool ordered = !before.has_value() || interval.first() > *before + 1;
    if (!ordered || interval.last() < interval.first() || interval.last() >= kSplitsMax) {
      return absl::DataLossError("ledger: its intervals are not in order");
    }
    before = interval.last();
    result.finished_[interval.first()] = interval.last();
  }
  before.reset();
  for (const OpenSplit& open : ledger.open()) {
    const bool ordered = !before.has_value() || open.split() > *before;
    if (!ordered || open.split() >= kSplitsMax || result.IsFinished(open.split()) ||
        open.next() == 0 ||
        open.next() >= BatchesInSplit(plan, open.split() % SplitsPerEpoch(plan))) {
      return absl::DataLossError(absl::StrCat("ledger: open split ", open.split(), " is wrong"));
    }
    before = open.split();
    result.open_[open.split()] = open.next();
  }
  RETURN_IF_ERROR(AddUp(ledger, plan));
  result.applied_ = ledger.applied();
  result.rejected_ = ledger.rejected();
  result.steps_ = ledger.steps();
  return result;
}

}  // namespace paracord
