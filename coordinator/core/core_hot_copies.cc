// Second holders in synchronous training, which take part in every round. After the loss of a ps
// the next generation goes on with the ps that serve a common state (held.h), and loads nothing.
// Any change of the layout is durable before that generation begins.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/human_bytes.h"
#include "common/probe.h"
#include "coordinator/core/core.h"
#include "coordinator/core/held.h"
#include "coordinator/core/holdings.h"

namespace paracord {

// Whether the generation may form without the ps that are away: each partition has another holder.
// A cluster that has not trained yet waits for all ps, which are just starting.
bool CoordinatorCore::MayFormWithoutAway() const {
  return options_.HasHotCopies() && record_.fixed() && !summary_writer_.done() && Living() &&
         !move_.Is(Move::Phase::kWriting) &&
         // After a move all ps can load the closing checkpoint without losing anything.
         ps_.OthersHoldAll(now_ms_, move_.Is(Move::Phase::kSettling));
}

// Decides which ps go on, unless `why` already gives a reason for a rollback; sets `why` if no
// state is common. False until the layout without the remaining ps is durable.
bool CoordinatorCore::DecideHolders(std::optional<std::string>& why) {
  if (move_.Is(Move::Phase::kWriting)) return false;
  std::vector<bool> stays;
  for (const Ps& ps : ps_.all()) stays.push_back(ps.state != PsState::kAway);
  const bool heals = move_.Is(Move::Phase::kSettling) && move_.heals();
  if (!why.has_value() && !heals) {
    const std::vector<std::vector<HeldPartition>> held = HeldByPs(View());
    const auto partitions = static_cast<uint32_t>(ps_.layout().size());
    const Manifest* const usable = checkpoints_.Usable();
    const uint64_t least = usable == nullptr ? 0 : StateOfCut(*usable);
    std::optional<CommonHolders> common = ChooseHolders(partitions, held, least);
    if (common.has_value()) {
      stays = std::move(common->serves);
    } else {
      why = absl::StrCat("the ps that are there have no state in common that is not before ",
                         usable == nullptr ? "the first one" : usable->name.ToString());
    }
  }
  if (heals && !why.has_value()) why = "partitions get second holders";
  return !LeaveOut(stays);
}

// Writes the layout without the ps that do not stay. Returns whether the layout changes.
bool CoordinatorCore::LeaveOut(const std::vector<bool>& stays) {
  const Layout now = LayoutNow();
  std::optional<Layout> next = Without(now, stays);
  if (!next.has_value()) return false;
  PROBE("coordinator.copies.left_out");
  std::vector<std::string> lost;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (ps_.Needed(i) && !stays[i]) lost.push_back(absl::StrCat("ps:", i));
  }
  uint64_t alone = 0;
  for (size_t p = 0; p < now.holders.size(); ++p)
    alone += now.seconds[p] != next->seconds[p] ? 1 : 0;
  const std::string who = absl::StrJoin(lost, ", ");
  if (move_.under_way() && !move_.Is(Move::Phase::kSettling)) {
    GiveUpMove(absl::StrCat(who, " is lost"));
  }
  copies_.HealAfter(now_ms_ + kHealMs);
  effects_.Warn(
      absl::StrCat(who, " is lost: ", alone, " partitions go on with their other holders"));
  const bool promotes = next->holders != now.holders;
  WriteSeconds(*std::move(next), promotes);
  return true;
}

// All ps are about to load: gives each partition a second holder. Returns whether a layout has to
// be written first.
bool CoordinatorCore::GiveSeconds() {
  std::optional<Layout> layout =
      WithSeconds([](const Ps& ps) { return ps.state != PsState::kAway; });
  if (!layout.has_value()) return false;
  PROBE("coordinator.copies.placed");
  WriteSeconds(*std::move(layout), /*promotes=*/false);
  return true;
}

// Returns which ps serve all their partitions as they are after `state` rounds.
std::vector<bool> CoordinatorCore::Serving(uint64_t state) const {
  std::vector<bool> serving;
  for (const std::vector<HeldPartition>& held : HeldByPs(View())) {
    serving.push_back(ServeAll(held, state));
  }
  return serving;
}

// Gives partitions with one holder a second one, by a move in which first holders stay: training
// stops at a cut, which the new holders load.
void CoordinatorCore::HealCopies() {
  if (!phases_.training() || ps_.AnyDrains() || !copies_.MayHeal(now_ms_)) return;
  std::optional<Layout> layout =
      WithSeconds([](const Ps& ps) { return ps.state == PsState::kReady && ps.no_room.empty(); });
  if (!layout.has_value()) return;
  const std::vector<uint64_t> bytes = BytesNow(View());
  const Layout now = LayoutNow();
  Move::Plan plan{.to = *std::move(layout), .partitions = 0, .bytes = 0, .heals = true};
  for (size_t p = 0; p < bytes.size(); ++p) {
    if (plan.to.SecondOf(p) == now.SecondOf(p)) continue;
    ++plan.partitions;
    plan.bytes += bytes[p];
  }
  effects_.Info(absl::StrCat(plan.partitions, " partitions of ", HumanBytes(plan.bytes),
                             " are to get second holders"));
  PROBE("coordinator.copies.healed");
  move_.Begin(std::move(plan), now_ms_);
}

}  // namespace paracord
