// The partitions that each ps should hold by the layout, and the partitions that it holds.
#include <set>
#include <utility>

#include "coordinator/core/ps_tracker.h"

namespace paracord {

void PsTracker::SetLayout(std::vector<PartitionSpec> layout) {
  layout_ = std::move(layout);
  if (!options_.HasCopies()) return;
  places_.assign(ps_.size(), kNobody);
  files_.assign(ps_.size(), kNobody);
  for (const PartitionSpec& partition : layout_) {
    places_[partition.ps()] = files_[partition.ps()] = 0;
    for (const uint32_t copy : partition.copies()) places_[copy] = 0;
  }
  needed_ = writers_ = 0;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    Ps& ps = ps_[i];
    ps.no_room.clear();
    if (places_[i] != kNobody) places_[i] = needed_++;
    if (files_[i] != kNobody) files_[i] = writers_++;
    // What this ps held is reported by the new holders.
    if (!Needed(i) && ps.state == PsState::kAway) {
      ps.description.clear_partitions();
      ps.description.clear_bytes();
    }
    if (ps.state != PsState::kReady || HoldsItsPartitions(i)) continue;
    ps.state = PsState::kSeen;
    ps.call_tag = ps.hold_tag = ps.ping_tag = ps.ledger_tag = ps.snapshot_tag = 0;
  }
}

std::vector<const Ps*> PsTracker::Holders() const {
  std::vector<const Ps*> holders;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (Needed(i)) holders.push_back(&ps_[i]);
  }
  return holders;
}

size_t PsTracker::CountThere() const {
  size_t count = 0;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    count += Needed(i) && ps_[i].state != PsState::kAway ? 1 : 0;
  }
  return count;
}

bool PsTracker::HoldsItsPartitions(uint32_t index) const {
  const PsDescription& description = ps_[index].description;
  if (description.run_id() != run_id_) return false;
  std::set<uint32_t> expected;
  for (const PartitionSpec& partition : layout_) {
    if (IsHeldBy(partition, index)) expected.insert(partition.id());
  }
  std::set<uint32_t> held;
  for (const PartitionDescription& partition : description.partitions()) {
    held.insert(partition.id());
  }
  return held == expected;
}

bool PsTracker::HoldsSomeOfIts(uint32_t index) const {
  const PsDescription& description = ps_[index].description;
  if (description.run_id() != run_id_ || description.partitions_size() == 0) return false;
  return std::ranges::all_of(description.partitions(), [&](const PartitionDescription& held) {
    return held.id() < layout_.size() && IsHeldBy(layout_[held.id()], index);
  });
}

bool PsTracker::OthersHoldAll(int64_t now_ms, bool load) const {
  constexpr int64_t kNeverSeenMs = 2000;  // for a ps that has never answered
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    const Ps& ps = ps_[i];
    if (!Needed(i) || ps.state != PsState::kAway) continue;
    const int64_t away_ms = now_ms - ps.away_since_ms;
    if (!ps.unreachable || (ps.heard_ms == 0 && away_ms < kNeverSeenMs)) return false;
    load = load || away_ms > options_.job.timeouts.ps_return_s * 1000;
  }
  return std::ranges::all_of(layout_, [&](const PartitionSpec& partition) {
    const auto there = [&](uint32_t ps) {
      return ps_[ps].state != PsState::kAway && (load || HoldsItsPartitions(ps));
    };
    return there(partition.ps()) || std::ranges::any_of(partition.copies(), there);
  });
}

bool PsTracker::AnyNeedsLoad() const {
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if (Needed(i) && ps_[i].state == PsState::kAdopted && !HoldsItsPartitions(i)) return true;
  }
  return false;
}

}  // namespace paracord
