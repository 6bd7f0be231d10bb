#include "coordinator/core/split_table.h"

#include <algorithm>
#include <iterator>

#include "config/data_plan.h"

namespace paracord {
namespace {

// How many splits after `base` to look at: later ones are not begun.
uint64_t Begun(const Ledger& ledger, uint64_t base) {
  uint64_t end = 0;
  if (ledger.finished_size() > 0) end = ledger.finished(ledger.finished_size() - 1).last() + 1;
  if (ledger.open_size() > 0) end = std::max(end, ledger.open(ledger.open_size() - 1).split() + 1);
  return end - std::min(end, base);
}

}  // namespace

SplitTable::SplitTable(uint64_t epoch, uint64_t batches, const DataPlan& plan)
    : epoch_(epoch),
      batches_(batches),
      plan_(plan),
      count_(SplitsOf(plan, batches)),
      open_splits_(count_) {
  while (plan_.lanes() > 0 && Begin()) {
  }
}

bool SplitTable::Begin() {
  const uint64_t split = splits_.size();
  if (split == count_) return false;
  free_.insert(split);
  splits_.push_back({.end = BatchesOfSplit(plan_, split, batches_)});
  return true;
}

void SplitTable::SetNext(uint64_t index, uint32_t next) {
  Split& split = splits_[index];
  const bool was_open = split.next < split.end;
  split.next = std::min(next, split.end);
  const bool is_open = split.next < split.end;
  if (was_open && !is_open) --open_splits_;
  if (!was_open && is_open) ++open_splits_;
  if (is_open && split.holders == 0) {
    freed_ += free_.insert(index).second ? 1 : 0;
  } else {
    free_.erase(index);
  }
}

void SplitTable::Load(const std::vector<uint32_t>& next) {
  while (splits_.size() < next.size() && Begin()) {
  }
  for (uint64_t s = 0; s < splits_.size(); ++s) {
    SetNext(s, s < next.size() ? next[s] : 0);
    splits_[s].entered = splits_[s].next;
    splits_[s].reporter = 0;
  }
}

void SplitTable::LedgersAsked() {
  if (has_lanes()) asked_ = splits_;
}

std::vector<SplitTable::Unfounded> SplitTable::UnfoundedIn(const std::vector<uint32_t>& next,
                                                           uint32_t pending) const {
  std::vector<Unfounded> lanes;
  for (uint64_t lane = 0; lane < asked_.size(); ++lane) {
    const uint64_t most = uint64_t{lane < next.size() ? next[lane] : 0} + pending;
    if (asked_[lane].next > most) lanes.push_back({lane, asked_[lane].reporter});
  }
  return lanes;
}

Lease SplitTable::MakeLease(LeaseState lease) {
  Split& split = splits_[lease.split];
  ++split.holders;
  free_.erase(lease.split);
  lease.next = std::max(lease.next, split.next);
  lease.end = std::min(lease.end, split.end);
  lease.progress_ms = lease.granted_ms;
  leases_.emplace_hint(leases_.end(), lease.id, lease);
  leases_of_.emplace(lease.session, lease.id);
  return ToProto(lease);
}

Lease SplitTable::ToProto(const LeaseState& state) const {
  Lease lease;
  lease.set_id(state.id);
  lease.set_epoch(epoch_);
  lease.set_split(state.split);
  lease.set_first_batch(state.next);
  lease.set_end_batch(state.end);
  return lease;
}

Lease SplitTable::GrantLane(uint64_t lane, uint64_t lease_id, uint64_t session, int64_t now_ms,
                            uint32_t end) {
  // The lease of a lane that is already past `end` still has one batch.
  return MakeLease({.id = lease_id,
                    .session = session,
                    .split = lane,
                    .end = std::max(end, splits_[lane].next + 1),
                    .granted_ms = now_ms});
}

Lease SplitTable::GrantBackup(uint64_t lane, uint64_t lease_id, uint64_t session, int64_t now_ms,
                              uint32_t round) {
  return MakeLease({.id = lease_id,
                    .session = session,
                    .split = lane,
                    .next = round,
                    .end = round + 1,
                    .granted_ms = now_ms,
                    .backup = true});
}

Lease SplitTable::Extend(LeaseState& lease, uint32_t end) {
  lease.end = std::max(lease.end, std::min(end, splits_[lease.split].end));
  return ToProto(lease);
}

std::vector<uint64_t> SplitTable::LanesBehind(int64_t since_ms) const {
  std::vector<uint64_t> lanes;
  const uint32_t behind = least();
  for (const auto& [id, lease] : leases_) {
    const Split& split = splits_[lease.split];
    if (split.holders > 1 || split.next != behind || split.next == split.end) continue;
    if (lease.progress_ms <= since_ms) lanes.push_back(lease.split);
  }
  return lanes;
}

bool SplitTable::IsWithAnother(uint64_t lane, uint64_t session) const {
  const Split& split = splits_[lane];
  if (split.holders != 1 || split.next == split.end) return false;
  return std::none_of(leases_of_.lower_bound({session, 0}),
                      leases_of_.lower_bound({session + 1, 0}),
                      [&](const auto& item) { return leases_.at(item.second).split == lane; });
}

uint32_t SplitTable::least() const {
  uint32_t least = std::numeric_limits<uint32_t>::max();
  for (const Split& split : splits_) {
    if (split.next < split.end) least = std::min(least, split.next);
  }
  return open_splits_ == 0 ? front() : least;
}

uint32_t SplitTable::LeasedTo() const {
  uint32_t end = 0;
  for (const auto& [id, lease] : leases_) end = std::max(end, lease.end);
  return end;
}

uint32_t SplitTable::front() const {
  uint32_t front = 0;
  for (const Split& split : splits_) front = std::max(front, split.next);
  return front;
}

std::vector<uint64_t> SplitTable::Holders() const {
  std::vector<uint64_t> holders(splits_.size(), 0);
  for (const auto& [id, lease] : leases_) {
    if (holders[lease.split] == 0) holders[lease.split] = lease.session;
  }
  return holders;
}

std::optional<Lease> SplitTable::Grant(uint64_t lease_id, uint64_t session, int64_t now_ms,
                                       const std::set<uint64_t>& withheld) {
  const auto granted = [&](uint64_t split) { return !withheld.contains(split); };
  auto first = std::find_if(free_.begin(), free_.end(), granted);
  while (first == free_.end() && Begin()) {
    if (granted(splits_.size() - 1)) first = std::prev(free_.end());
  }
  if (first == free_.end()) return std::nullopt;
  return MakeLease({.id = lease_id,
                    .session = session,
                    .split = *first,
                    .end = splits_[*first].end,
                    .granted_ms = now_ms});
}

std::optional<Lease> SplitTable::GrantAgain(uint64_t lease_id, uint64_t session, int64_t now_ms,
                                            int64_t age_ms, const std::set<uint64_t>& withheld) {
  for (const auto& [id, lease] : leases_) {  // oldest first
    if (now_ms - lease.granted_ms < age_ms) break;
    const Split& split = splits_[lease.split];
    if (lease.session == session || split.holders > 1 || split.next == split.end) continue;
    if (withheld.contains(lease.split)) continue;
    return MakeLease({.id = lease_id,
                      .session = session,
                      .split = lease.split,
                      .end = split.end,
                      .granted_ms = now_ms});
  }
  return std::nullopt;
}

LeaseState* SplitTable::Find(uint64_t lease_id) {
  const auto it = leases_.find(lease_id);
  return it == leases_.end() ? nullptr : &it->second;
}

void SplitTable::Progress(LeaseState& lease, uint32_t next) {
  lease.next = std::max(lease.next, next);
  if (next <= splits_[lease.split].next) return;
  SetNext(lease.split, next);
  splits_[lease.split].reporter = lease.session;
}

void SplitTable::End(uint64_t lease_id) {
  const auto it = leases_.find(lease_id);
  if (it == leases_.end()) return;
  const uint64_t index = it->second.split;
  leases_of_.erase({it->second.session, lease_id});
  leases_.erase(it);
  --splits_[index].holders;
  SetNext(index, splits_[index].next);
}

void SplitTable::EndAllOf(uint64_t split) {
  std::vector<uint64_t> ids;
  for (const auto& [id, lease] : leases_) {
    if (lease.split == split) ids.push_back(id);
  }
  for (const uint64_t id : ids) End(id);
}

std::vector<LeaseState> SplitTable::EndSession(uint64_t session, const std::set<uint64_t>& held) {
  std::vector<LeaseState> ended;
  for (auto it = leases_of_.lower_bound({session, 0});
       it != leases_of_.end() && it->first == session; ++it) {
    if (!held.contains(it->second)) ended.push_back(leases_.at(it->second));
  }
  for (const LeaseState& lease : ended) End(lease.id);
  return ended;
}

std::vector<uint64_t> SplitTable::IdsOf(uint64_t session) const {
  std::vector<uint64_t> ids;
  for (auto it = leases_of_.lower_bound({session, 0});
       it != leases_of_.end() && it->first == session; ++it) {
    ids.push_back(it->second);
  }
  return ids;
}

uint64_t SplitTable::LeasesOf(uint64_t session) const {
  uint64_t count = 0;
  for (auto it = leases_of_.lower_bound({session, 0});
       it != leases_of_.end() && it->first == session; ++it) {
    ++count;
  }
  return count;
}

bool SplitTable::HasOtherThan(uint64_t session, uint64_t split) const {
  return std::any_of(leases_of_.lower_bound({session, 0}), leases_of_.lower_bound({session + 1, 0}),
                     [&](const auto& item) { return leases_.at(item.second).split != split; });
}

uint64_t SplitTable::batches_done() const {
  uint64_t done = 0;
  for (const Split& split : splits_) done += split.next;
  return done;
}

std::vector<uint32_t> LeastNext(const std::vector<const Ledger*>& ledgers, uint64_t epoch,
                                uint64_t batches, const DataPlan& plan) {
  const uint64_t base = epoch * SplitsPerEpoch(plan);
  uint64_t splits = ledgers.empty() ? 0 : SplitsOf(plan, batches);
  for (const Ledger* ledger : ledgers) splits = std::min(splits, Begun(*ledger, base));
  const uint64_t end = base + splits;
  std::vector<uint32_t> least(splits, plan.split_batches());
  // Looks only at splits that a ledger has not finished: there may be thousands of ledgers and a
  // million splits.
  for (const Ledger* ledger : ledgers) {
    uint64_t at = base;
    auto open = ledger->open().begin();
    const auto look_until = [&](uint64_t until) {
      for (; at < until; ++at) {
        while (open != ledger->open().end() && open->split() < at) ++open;
        const bool begun = open != ledger->open().end() && open->split() == at;
        least[at - base] = std::min(least[at - base], begun ? open->next() : 0);
      }
    };
    for (const SplitInterval& interval : ledger->finished()) {
      look_until(std::min(interval.first(), end));
      at = std::max(at, interval.last() + 1);
    }
    look_until(end);
  }
  return least;
}

bool CoversAll(const std::vector<uint32_t>& next, uint64_t batches, const DataPlan& plan) {
  const uint64_t splits = SplitsOf(plan, batches);
  if (next.size() < splits) return false;
  for (uint64_t split = 0; split < splits; ++split) {
    if (next[split] < BatchesOfSplit(plan, split, batches)) return false;
  }
  return true;
}

uint64_t BatchesReached(const std::vector<const Ledger*>& ledgers, const DataPlan& plan) {
  const uint64_t splits_per_epoch = SplitsPerEpoch(plan);
  uint64_t reached = 0;
  const auto reach = [&](uint64_t split, uint32_t next) {  // next > 0
    const uint64_t before = split / splits_per_epoch * BatchesPerEpoch(plan);
    const uint64_t last = BatchInEpoch(plan, split % splits_per_epoch, next - 1);
    reached = std::max(reached, before + last + 1);
  };
  for (const Ledger* ledger : ledgers) {
    for (const SplitInterval& interval : ledger->finished()) {
      // The last lane of an epoch may end one round earlier than others.
      const uint64_t looked_at = plan.lanes() > 0 ? splits_per_epoch : 1;
      const uint64_t before = interval.last() + 1 - std::min(looked_at, interval.last() + 1);
      for (uint64_t s = std::max(interval.first(), before); s <= interval.last(); ++s) {
        reach(s, BatchesInSplit(plan, s % splits_per_epoch));
      }
    }
    for (const OpenSplit& open : ledger->open()) reach(open.split(), open.next());
  }
  return reached;
}

uint64_t EpochsBegun(const std::vector<const Ledger*>& ledgers, uint64_t splits_per_epoch) {
  uint64_t splits = 0;
  for (const Ledger* ledger : ledgers) splits = std::max(splits, Begun(*ledger, 0));
  return DivideUp(splits, splits_per_epoch);
}

}  // namespace paracord
