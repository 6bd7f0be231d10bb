// Leases of lanes: dealt out evenly, short, and moved on as long as a lane stays where it is.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/probe.h"
#include "coordinator/core/core.h"

namespace paracord {
namespace {

constexpr int64_t kAskedMs = 500;   // who wanted a task so lately is about to ask again
constexpr int64_t kKnownMs = 2000;  // and who has wanted one for so long has been dealt with

}  // namespace

// Decides who is to have which lane, and how far leases reach. True if parked workers may get
// something by it. Each event comes here, and there may be thousands of workers that stand by: they
// are looked at only when a lane has become free, and at ticks.
bool CoordinatorCore::DealLanes(bool tick) {
  if (!phases_.training() || training_.table() == nullptr) return false;
  const SplitTable& table = *training_.table();
  lane_leases_.MoveOn(table, now_ms_);
  const bool moved = lane_leases_.TakeMoved();
  const bool deals = lane_leases_.MustDeal(table);
  if (tick) lane_leases_.LookBehind(table, now_ms_);
  if (tick || deals) {
    std::vector<LaneTaker> takers;
    for (const auto& [id, session] : sessions_.all()) {
      if (session.benched_until_ms > now_ms_) continue;
      const bool asks = session.parked.has_value() ||
                        (session.asked_ms.has_value() && now_ms_ - *session.asked_ms <= kAskedMs);
      if (asks || table.LeasesOf(id) > 0) takers.push_back({id, 0});
    }
    lane_leases_.Deal(table, takers, now_ms_);
  }
  return deals || moved;
}

// A session wants a task.
void CoordinatorCore::NoteAsks(WorkerSession& session) {
  const std::optional<int64_t> before_ms = std::exchange(session.asked_ms, now_ms_);
  if (!before_ms.has_value() || now_ms_ - *before_ms > kKnownMs) lane_leases_.Asked();
}

// The splits that a session is to get no lease of, and lanes whose leases are not to be moved on.
std::set<uint64_t> CoordinatorCore::WithheldFrom(const WorkerSession& session) const {
  return failures_.Withheld(training_.table()->epoch(), session.task, sessions_.all().size() > 1,
                            now_ms_);
}

// Moves the leases of a session on whose lanes stay with it. True if there are any.
bool CoordinatorCore::ExtendLanes(WorkerSession& session, WorkReply& reply) {
  if (!HasLanes() || !phases_.training() || training_.table() == nullptr) return false;
  const bool stays = end_.planned() || (job_.guarantees.sync() && EndIsPlanned());
  if (stays || !ps_.AllAre(PsState::kReady)) return false;
  SplitTable& table = *training_.table();
  std::optional<std::set<uint64_t>> withheld;
  for (const uint64_t id : table.IdsOf(session.id)) {
    LeaseState& lease = *table.Find(id);
    const uint32_t end = std::min(lane_leases_.end(), table.EndOf(lease.split));
    if (end <= lease.end || !lane_leases_.StaysWith(lease.split, session.id)) continue;
    if (!withheld.has_value()) withheld = WithheldFrom(session);
    if (withheld->contains(lease.split)) continue;
    session.work.Extend(end - lease.end);
    AddProofs(*reply.add_lanes() = table.Extend(lease, end));
  }
  return reply.lanes_size() > 0;
}

// Says again where the leases of a session end: the answer that said it may have been lost.
void CoordinatorCore::SayEnds(const WorkerSession& session, WorkReply& reply) {
  if (!HasLanes() || !phases_.training() || training_.table() == nullptr) return;
  SplitTable& table = *training_.table();
  for (const uint64_t id : table.IdsOf(session.id)) {
    AddProofs(*reply.add_lanes() = table.Extend(*table.Find(id), 0));
  }
}

// Adds to `reply` what there is for a session that wants a task: free lanes that it is to have,
// leases that are moved on, or a second lease of a lane that others wait for. True if there is any.
bool CoordinatorCore::TryGiveLanes(WorkerSession& session, WorkReply& reply) {
  SplitTable& table = *training_.table();
  ExtendLanes(session, reply);
  std::vector<uint64_t> lanes;
  std::ranges::copy_if(table.free_lanes(), std::back_inserter(lanes), [&](uint64_t lane) {
    return lane_leases_.MayTake(lane, session.id, now_ms_);
  });
  const std::set<uint64_t> withheld =
      lanes.empty() && lane_leases_.behind().empty() ? std::set<uint64_t>() : WithheldFrom(session);
  const std::optional<uint32_t> last = LastRoundOfLanes();
  const auto may_have = [&](uint64_t lane) {
    return !withheld.contains(lane) && (!last.has_value() || table.NextOf(lane) < *last) &&
           table.LeasesOf(session.id) < LeasesOfSessionMax(record_.plan());
  };
  const auto give = [&](uint64_t lane) {
    Lease lease = table.GrantLane(lane, sessions_.next_id(), session.id, now_ms_,
                                  last.value_or(lane_leases_.end()));
    sessions_.TakeId();
    AddProofs(lease);
    session.work.Grant(lease);
    *(reply.has_lease() ? reply.add_lanes() : reply.mutable_lease()) = std::move(lease);
  };
  for (const uint64_t lane : lanes) {
    if (may_have(lane)) give(lane);
  }
  if (reply.has_lease() || reply.lanes_size() > 0) return true;
  const auto behind = std::ranges::find_if(lane_leases_.behind(), [&](uint64_t lane) {
    return may_have(lane) && table.IsBehindWithAnother(lane, session.id);
  });
  if (behind == lane_leases_.behind().end()) return false;
  PROBE("coordinator.lane.straggler");
  give(*behind);
  return true;
}

// Frees all lanes where all who have some say that they wait, and no lane has come further for a
// while: somebody has reported batches that no ps has, and the worker that has the lane now waits
// for itself. True if so, and then the ledgers are to be read again.
bool CoordinatorCore::FreeStuckLanes() {
  if (!HasLanes()) return false;
  SplitTable& table = *training_.table();
  const bool stuck = std::ranges::all_of(table.leases(), [this](const auto& item) {
    const auto holder = sessions_.all().find(item.second.session);
    return holder != sessions_.all().end() && !holder->second.waits_for.empty() &&
           now_ms_ - item.second.progress_ms >= kStragglerMs;
  });
  if (!stuck || table.leases().empty()) return false;
  PROBE("coordinator.lane.stuck");
  while (!table.leases().empty()) table.End(table.leases().begin()->first);
  return true;
}

}  // namespace paracord
