// Cuts: which state a checkpoint of a synchronous job saves, and how lanes reach that state when
// the job ends.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "coordinator/core/core.h"

namespace paracord {

// The present states. Reports on leases are newer than descriptions of ps; but at a planned end,
// where the ps were just asked, only their answers count.
CutView CoordinatorCore::ViewOfCut() const {
  CutView view;
  view.planned_end = EndIsPlanned();
  view.greatest = ps_.GreatestState();
  view.end = view.greatest;
  const bool goes_on = move_.holds_training() && !end_.planned() && !ps_.AnyDrains();
  if (goes_on) view.rest = view.greatest;
  const SplitTable* const table = training_.table();
  const DataPlan& plan = record_.plan();
  if (!phases_.training() || table == nullptr || plan.lanes() == 0) return view;
  const auto state_before = [&](uint64_t round) {
    return StateBefore(plan, table->epoch(), round);
  };
  view.end = state_before(DivideUp(table->batches(), plan.lanes()));
  if (goes_on) view.rest = std::max(view.greatest, state_before(table->LeasedTo()));
  if (!view.planned_end) {
    view.greatest = std::max(view.greatest, std::min(state_before(table->front()), view.end));
  }
  const Throughput::Window recently = throughput_.Recently(now_ms_);
  if (recently.length_ms > 0) {
    view.rounds_a_second = 1000.0 * static_cast<double>(recently.computed) /
                           static_cast<double>(recently.length_ms) / plan.lanes();
  }
  return view;
}

// The directory of the round exists: orders a snapshot from each first holder.
void CoordinatorCore::OrderSnapshots() {
  if (job_.guarantees.sync()) {
    const CutView view = ViewOfCut();
    rounds_.SetCut(cuts_.Order(view), view.planned_end);
  }
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (ps_.FileOf(i) != kNobody) AskSnapshot(i);
  }
}

// Orders the file of a first holder; partitions that it holds as second holder are in other files.
void CoordinatorCore::AskSnapshot(uint32_t index) {
  SnapshotRequest request = rounds_.Ask(ps_.FileOf(index));
  bool second = false;
  for (const PartitionSpec& partition : ps_.layout()) {
    if (partition.ps() == index) request.add_only(partition.id());
    second = second || (partition.ps() != index && IsHeldBy(partition, index));
  }
  if (!second) request.clear_only();
  ps_.AskSnapshot(index, std::move(request));
}

// An end was planned after a cut had been ordered ahead: asks the ps for their states.
void CoordinatorCore::CheckCutAtEnd() {
  if (!rounds_.Collecting() || !rounds_.round().cut.has_value()) return;
  if (rounds_.round().at_end || !EndIsPlanned()) return;
  rounds_.LookedAtEnd();
  ReadLedgers();
}

// The ps have reported their states, for which a cut at a planned end waits.
void CoordinatorCore::StatesRead() {
  if (!job_.guarantees.sync() || !rounds_.Collecting() || !rounds_.round().asked) return;
  const std::optional<uint64_t> cut = rounds_.round().cut;
  if (!cut.has_value()) return OrderSnapshots();
  const CutView view = ViewOfCut();
  if (!Cuts::IsVoid(*cut, view)) return;
  PROBE("coordinator.cut.void");
  RepeatRound(absl::StrCat("training ends at state ", view.rest.value_or(view.greatest),
                           ", and the cut is at ", *cut),
              0);
}

void CoordinatorCore::RepeatRound(const std::string& why, int64_t after_ms) {
  ps_.ForgetSnapshots();
  rounds_.Repeat(why, now_ms_ + after_ms);
}

// Whether a snapshot is of a different state than the cut; if so, the round has failed.
bool CoordinatorCore::OfOtherState(uint32_t index, const SnapshotReply& reply) {
  if (!rounds_.Collecting() || !rounds_.round().cut.has_value()) return false;
  const uint64_t cut = *rounds_.round().cut;
  for (const PartitionDescription& partition : reply.partitions()) {
    if (!partition.has_ledger() || partition.state() == cut) continue;
    FailRound(absl::StrCat("ps:", index, " wrote partition ", partition.id(), " at state ",
                           partition.state(), ", and the cut is at ", cut));
    return true;
  }
  return false;
}

// At a planned end of a synchronous job: the round of the open epoch at which lanes end. It is that
// of the cut, since later rounds would be lost.
std::optional<uint32_t> CoordinatorCore::LastRoundOfLanes() const {
  if (!job_.guarantees.sync() || !EndIsPlanned()) return std::nullopt;
  if (!rounds_.Collecting() || !rounds_.round().at_end) return 0;
  const uint64_t begin = StateBefore(record_.plan(), training_.table()->epoch(), 0);
  const uint64_t cut = std::max(rounds_.round().cut.value_or(0), begin);
  return static_cast<uint32_t>(std::min<uint64_t>(cut - begin, RoundsPerEpoch(record_.plan())));
}

}  // namespace paracord
