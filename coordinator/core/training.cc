#include "coordinator/core/training.h"

#include <algorithm>
#include <utility>

#include "config/data_plan.h"

namespace paracord {

OpenEpoch Training::FirstOpen(const std::vector<const Ledger*>& ledgers, const DataPlan& plan,
                              const JobExtent& extent) const {
  const uint64_t splits_per_epoch = SplitsPerEpoch(plan);
  // Whole epochs that every ledger has without a gap need no closer look.
  OpenEpoch open{.epoch = ledgers.empty() ? 0 : extent.epochs(), .next = {}};
  for (const Ledger* ledger : ledgers) {
    const bool from_start = ledger->finished_size() > 0 && ledger->finished(0).first() == 0;
    const uint64_t whole = from_start ? (ledger->finished(0).last() + 1) / splits_per_epoch : 0;
    open.epoch = std::min(open.epoch, whole);
  }
  for (; open.epoch < extent.epochs(); ++open.epoch) {
    const uint64_t batches = extent.BatchesOfEpoch(open.epoch);
    open.next = LeastNext(ledgers, open.epoch, batches, plan);
    if (!CoversAll(open.next, batches, plan)) break;
  }
  return open;
}

bool Training::CloseBefore(uint64_t epoch) { return std::exchange(closed_, epoch) != epoch; }

void Training::Open(const OpenEpoch& open, uint64_t batches, const DataPlan& plan) {
  abandoned_.clear();
  table_.emplace(open.epoch, batches, plan);
  table_->Load(open.next);
}

bool Training::MayBePushed(uint64_t split) const {
  if (abandoned_.contains(split)) return true;
  return table_.has_value() && std::ranges::any_of(table_->leases(), [&](const auto& item) {
           return item.second.split == split;
         });
}

std::vector<LeaseState> Training::EndSession(uint64_t session, const std::set<uint64_t>& held) {
  if (!table_.has_value()) return {};
  std::vector<LeaseState> ended = table_->EndSession(session, held);
  for (const LeaseState& lease : ended) Abandon(lease.split);
  return ended;
}

}  // namespace paracord
