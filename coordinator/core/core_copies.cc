// Second holders of partitions (copies.h): their places, their preparations, and their takeover.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/probe.h"
#include "coordinator/core/core.h"
#include "coordinator/core/holdings.h"
#include "coordinator/core/placement.h"

namespace paracord {

void CoordinatorCore::DriveCopies(bool tick) {
  if (!options_.HasCopies() || !record_.fixed() || summary_writer_.done()) return;
  DriveGuests();
  if (options_.HasHotCopies()) {
    if (tick && MayPlaceCopies()) HealCopies();
    return;
  }
  if (ps_.AnyIs(PsState::kAway) || ps_.AnyIs(PsState::kSeen)) PromoteSeconds(/*unprepared=*/false);
  if (!tick || !MayPlaceCopies()) return;
  if (copies_.MayHeal(now_ms_)) PlaceCopies();
  PrepareCopies();
}

// Brings in ps that are first holder of nothing while training goes on: such a ps drops the
// partitions of an earlier time, and may then become a second holder.
void CoordinatorCore::DriveGuests() {
  if (generation_.claiming() || !generation_.wanted().empty() || copies_.writing()) return;
  // In synchronous training a guest may become a holder before the other ps are loaded, and a ps
  // loads once in a generation.
  if (options_.HasHotCopies() && !ps_.AllAre(PsState::kReady)) return;
  for (const uint32_t index : ps_.Idle(PsState::kSeen, now_ms_, /*needed=*/false)) {
    ps_.Adopt(index);
  }
  for (const uint32_t index : ps_.Idle(PsState::kAdopted, now_ms_, /*needed=*/false)) {
    if (ps_.HoldsItsPartitions(index)) {
      ps_.MarkReady(index, now_ms_);
      continue;
    }
    PROBE("coordinator.copies.guest");
    if (phases_.formed()) copies_.HealAfter(now_ms_ + kHealMs);
    const Manifest* const usable = checkpoints_.Usable();
    ps_.Load(index, PrepareOrder(usable == nullptr ? "" : usable->name.ToString()));
  }
}

std::vector<Standing> CoordinatorCore::Standings() const {
  const Layout& layout = *record_.layout();
  std::vector<Standing> standings(ps_.size());
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const Ps& ps = ps_.all()[i];
    const bool nothing = ps.description.partitions_size() == 0;
    // A restarted ps holds nothing; if its second holders take over, nobody waits for it any more.
    standings[i].lost = ps_.Needed(i) && ((ps.state == PsState::kAway && ps.unreachable) ||
                                          (ps.state == PsState::kSeen && nothing));
    standings[i].takes = ps.state != PsState::kAway && (nothing || ps_.HoldsItsPartitions(i));
    standings[i].prepared = !ps.description.prepared().empty();
  }
  // A ps that prepared under an earlier coordinator is assumed to have prepared the second
  // partitions that job.state gives it.
  for (uint32_t p = 0; p < layout.holders.size(); ++p) {
    const uint32_t second = layout.SecondOf(p);
    if (second == kNobody || !standings[layout.holders[p]].lost) continue;
    const std::vector<uint32_t>& ids = ps_.all()[second].prepare_ids;
    if (!ids.empty() && !std::ranges::binary_search(ids, p)) standings[second].prepared = false;
  }
  return standings;
}

// Lets second holders take over the partitions of lost ps. False if they cannot.
bool CoordinatorCore::PromoteSeconds(bool unprepared) {
  if (!options_.HasWarmCopies() || !record_.fixed() || summary_writer_.done()) return false;
  if (copies_.writing()) return true;
  if (move_.Is(Move::Phase::kWriting)) return false;
  const std::optional<Layout>& layout = record_.layout();
  if (!layout.has_value() || layout->ps.size() != ps_.size()) return false;
  if (checkpoints_.Usable() == nullptr) return false;
  // During a move the preparations of second holders gave way to those for the move.
  const bool moves = move_.under_way() && !move_.Is(Move::Phase::kSettling);
  std::optional<Layout> next = Promoted(*layout, Standings(), unprepared || moves);
  if (!next.has_value()) return false;
  if (generation_.claiming()) return true;  // when the claim has ended
  std::vector<std::string> lost;
  uint64_t partitions = 0;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const auto had = std::ranges::count(layout->holders, i);
    if (had == 0 || std::ranges::count(next->holders, i) > 0) continue;
    lost.push_back(absl::StrCat("ps:", i));
    partitions += static_cast<uint64_t>(had);
  }
  const std::string who = absl::StrJoin(lost, ", ");
  if (moves) GiveUpMove(absl::StrCat(who, " is lost"));
  effects_.Warn(
      absl::StrCat(who, " is lost: ", partitions, " partitions go on with their second holders"));
  WriteSeconds(*std::move(next), /*promotes=*/true);
  return true;
}

void CoordinatorCore::WriteSeconds(Layout layout, bool promotes) {
  copies_.Write(promotes);
  record_.SetLayout(std::move(layout));
  SaveJobState();
}

// The layout with different second holders is durable.
void CoordinatorCore::SecondsWritten() {
  PROBE("coordinator.copies.promoted");
  copies_.Written();
  if (phases_.ended()) return;
  PlaceLayout();
  // In synchronous training the layout is written after the ps were adopted and before they begin.
  if (options_.HasHotCopies()) return;
  if (!generation_.claiming()) ClaimNextGeneration("partitions have other holders");
}

bool CoordinatorCore::MayPlaceCopies() const {
  if (copies_.writing() || move_.under_way() || end_.planned() || generation_.claiming() ||
      !generation_.wanted().empty() || !ps_.AllAre(PsState::kReady)) {
    return false;
  }
  return std::ranges::all_of(ps_.all(), [&](const Ps& ps) {
    // A ps that has just come in will be ready soon.
    const bool away = ps.state == PsState::kAway && now_ms_ - ps.away_since_ms >= kHealMs;
    return ps.state == PsState::kReady || away;
  });
}

// The layout in force: the stored one, or the one by the placement rule.
Layout CoordinatorCore::LayoutNow() const {
  if (record_.layout().has_value()) return *record_.layout();
  Layout layout;
  layout.given = options_.ps_addresses;
  for (const Ps& ps : ps_.all()) layout.ps.push_back(ps.address);
  layout.holders = HoldersOf(ps_.layout());
  return layout;
}

// Returns the layout with a second holder for each partition that has none, as far as ps are
// available and have room; nullopt: nothing changes.
std::optional<Layout> CoordinatorCore::WithSeconds(
    const std::function<bool(const Ps&)>& available) const {
  Layout layout = LayoutNow();
  bool all = !layout.seconds.empty();
  for (size_t p = 0; p < layout.seconds.size() && all; ++p) {
    all = layout.seconds[p] != kNobody && available(ps_.all()[layout.seconds[p]]);
  }
  if (all) return std::nullopt;
  const std::vector<uint64_t> bytes = ResidentBytes(View(), BytesNow(View()));
  std::vector<uint64_t> first(ps_.size());
  for (size_t p = 0; p < bytes.size(); ++p) first[layout.holders[p]] += bytes[p];
  std::vector<CopyPlace> places;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const Ps& ps = ps_.all()[i];
    const uint64_t most = VariablesMax(ps);
    places.push_back({ps.address, available(ps), most - std::min(most, first[i])});
  }
  layout.seconds =
      PlaceSeconds(bytes, layout.holders, std::move(layout.seconds), std::move(places));
  if (record_.layout() == layout) return std::nullopt;
  return layout;
}

// Gives a second holder to each partition that has none.
void CoordinatorCore::PlaceCopies() {
  std::optional<Layout> layout =
      WithSeconds([](const Ps& ps) { return ps.state == PsState::kReady && ps.no_room.empty(); });
  if (!layout.has_value()) return;
  PROBE("coordinator.copies.placed");
  record_.SetLayout(*std::move(layout));
  SaveJobState();
}

// Has second holders read the newest checkpoint, or only what changed since the checkpoint that
// they prepared.
void CoordinatorCore::PrepareCopies() {
  const Manifest* const usable = checkpoints_.Usable();
  if (usable == nullptr) return;
  const std::string newest = usable->name.ToString();
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const Ps& ps = ps_.all()[i];
    if (ps.state != PsState::kReady || ps.prepare_tag != 0 || now_ms_ < ps.prepare_at_ms) continue;
    const std::vector<uint32_t> ids = SecondsOn(record_.layout(), i);
    const bool nothing = ids.empty() && ps.description.prepared().empty();
    if (nothing || !ps.no_room.empty() || ps_.HasPrepared(i, newest, ids)) continue;
    LoadRequest prepare = PrepareOrder(newest);
    for (const uint32_t p : ids) *prepare.add_partitions() = ps_.layout()[p];
    ps_.Prepare(i, std::move(prepare));
  }
}

}  // namespace paracord
