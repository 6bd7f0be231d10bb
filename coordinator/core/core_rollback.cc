// What the ps of a synchronous job begin a generation with (rollback.h), and lost states.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "config/ps_settings.h"
#include "coordinator/core/core.h"
#include "coordinator/core/held.h"
#include "coordinator/core/holdings.h"

namespace paracord {
namespace {

// The partitions held by the ps that the layout names.
std::vector<HeldPartition> HeldPartitions(const JobView& job) {
  std::vector<HeldPartition> held;
  for (const std::vector<HeldPartition>& of_ps : HeldByPs(job)) {
    held.insert(held.end(), of_ps.begin(), of_ps.end());
  }
  return held;
}

// Says why a ps that holds its partitions must reload them: its settings differ from the job's.
// nullopt: it may keep them.
std::optional<std::string> OtherSettings(const JobView& job) {
  const std::string settings = PsSettings(job.options.job);
  for (uint32_t i = 0; i < job.ps.size(); ++i) {
    const bool there = job.ps.all()[i].state != PsState::kAway;
    if (!there || !job.ps.HoldsItsPartitions(i)) continue;
    if (SameUpdates(job.ps.all()[i].description.settings(), settings)) continue;
    return absl::StrCat("ps:", i, " updates values by other settings, such as the learning rate");
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CoordinatorCore::WhyRollBack() const {
  if (!rollback_.wanted().empty()) return rollback_.wanted();
  if (const std::optional<BatchId> batch = failures_.counts().PendingAgain()) {
    return absl::StrCat(NameOf(*batch), " fails again, and some partition has it");
  }
  const JobView view = View();
  if (std::optional<std::string> other = OtherSettings(view)) return other;
  if (options_.HasHotCopies()) return std::nullopt;  // DecideHolders decides
  const std::vector<HeldPartition> held = HeldPartitions(view);
  return NeedsRollback(static_cast<uint32_t>(ps_.layout().size()), held);
}

// Decides, once in a generation and for all ps, what they begin with. False while that cannot be
// decided yet.
bool CoordinatorCore::DecideRollback() {
  if (rollback_.decided()) return true;
  const std::vector<uint32_t> idle = ps_.Idle(PsState::kAdopted, now_ms_);
  if (idle.size() != ps_.CountThere()) return false;
  std::optional<std::string> why = WhyRollBack();
  if (options_.HasHotCopies() && !DecideHolders(why)) return false;
  if (!why.has_value()) {
    rollback_.GoOn();
    return true;
  }
  // A checkpoint committed later might contain a batch that is rejected in the meantime.
  if (rounds_.Unsettled()) return false;
  const Manifest* const usable = checkpoints_.Usable();
  if (usable == nullptr && checkpoints_.Lost(record_.counters().checkpoints)) {
    // If a newer coordinator has removed the checkpoints, the answer will show it.
    rollback_.LackCheckpoint();
    for (const uint32_t index : idle) ps_.RetryLater(index, now_ms_);
    effects_.Emit(FindNewestGeneration());
    return false;
  }
  if (options_.HasHotCopies() && GiveSeconds()) return false;
  // New second holders load the closing checkpoint; the other ps have the same state.
  const bool heals = move_.Is(Move::Phase::kSettling) && move_.heals() && usable != nullptr;
  rollback_.LoadAll(usable == nullptr ? "" : usable->name.ToString(),
                    heals ? Serving(StateOfCut(*usable)) : std::vector<bool>());
  if ((phases_.formed() || ps_.AnyHoldsRun()) && !move_.Is(Move::Phase::kSettling)) {
    PROBE("coordinator.rollback");
    ++record_.counters().rollbacks;
    effects_.Warn(absl::StrCat("all parameter servers ",
                               usable == nullptr ? "begin anew" : "load " + usable->name.ToString(),
                               ": ", *why));
  }
  return true;
}

// The ledgers have been read: finds a state that some partition still needs and no partition serves
// any more, for which workers would wait in vain.
bool CoordinatorCore::StateIsLost(const OpenEpoch& open,
                                  const std::vector<const Ledger*>& ledgers) {
  if (!job_.guarantees.sync()) return false;
  uint64_t entered = 0;
  for (const Ledger* ledger : ledgers) entered += ledger->applied() + ledger->rejected();
  const std::vector<HeldPartition> held = HeldPartitions(View());
  const bool served = !NeedsRollback(static_cast<uint32_t>(ps_.layout().size()), held).has_value();
  const RoundGaps::Judgement judgement =
      gaps_.LedgersRead({open.epoch, open.next, entered, served});
  for (const uint64_t id : judgement.untrue) {
    WorkerSession* const session = sessions_.Find(id);
    if (session == nullptr) continue;
    sessions_.Rest(*session, now_ms_, "reports that values are gone which the ps have");
  }
  const std::optional<BatchId>& batch = judgement.lost;
  if (!batch.has_value()) return false;
  PROBE("coordinator.rollback.stuck");
  gaps_.Forget();
  const std::string why =
      absl::StrCat("no parameter server has the values that ", NameOf(*batch), " needs");
  effects_.Warn(absl::StrCat(why, ", which must not happen: going back to the newest checkpoint"));
  rollback_.Want(why);
  generation_.Want(why);
  return true;
}

}  // namespace paracord
