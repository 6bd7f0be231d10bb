// Leases of lanes: lanes are dealt out by the time that workers take for a batch; leases are short,
// and are extended as long as the lane stays with its session.
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/probe.h"
#include "coordinator/core/core.h"

namespace paracord {
namespace {

constexpr int64_t kAskedMs = 500;   // a session that asked this recently will ask again
constexpr int64_t kKnownMs = 2000;  // asking again after this long counts as new

}  // namespace

// Decides which session is to have each lane, and where leases end. True if parked workers may get
// something. Runs at every event, and thousands of workers may be standing by: it looks at them
// only when a lane has become free, and at ticks.
bool CoordinatorCore::DealLanes(bool tick) {
  if (!phases_.training() || training_.table() == nullptr) return false;
  const SplitTable& table = *training_.table();
  lane_leases_.MoveOn(table, now_ms_);
  const bool moved = lane_leases_.TakeMoved();
  const bool deals = lane_leases_.MustDeal(table);
  if (tick) lane_leases_.LookBehind(table, job_.guarantees.backup_factor, now_ms_);
  if (tick || deals) {
    std::vector<LaneTaker> takers;
    for (const auto& [id, session] : sessions_.all()) {
      if (session.backoff_until_ms > now_ms_) continue;
      const bool asks = session.parked.has_value() ||
                        (session.asked_ms.has_value() && now_ms_ - *session.asked_ms <= kAskedMs);
      if (asks || table.LeasesOf(id) > 0) {
        takers.push_back({id, session.batch_time.seconds(), session.devices});
      }
    }
    lane_leases_.Deal(table, takers, now_ms_);
  }
  return deals || moved;
}

// Notes that a session asks for a task.
void CoordinatorCore::NoteAsks(WorkerSession& session) {
  const std::optional<int64_t> before_ms = std::exchange(session.asked_ms, now_ms_);
  if (!before_ms.has_value() || now_ms_ - *before_ms > kKnownMs) lane_leases_.Asked();
}

// The splits of which the session may get no lease; leases of such lanes are not extended.
std::set<uint64_t> CoordinatorCore::WithheldFrom(const WorkerSession& session) const {
  return failures_.Withheld(training_.table()->epoch(), session.task, sessions_.all().size() > 1,
                            now_ms_);
}

// Extends the session's leases of lanes that stay with it. True if there are any.
bool CoordinatorCore::ExtendLanes(WorkerSession& session, WorkReply& reply) {
  if (!HasLanes() || !phases_.training() || training_.table() == nullptr) return false;
  const bool stays = end_.planned() || (job_.guarantees.sync() && EndIsPlanned());
  if (stays || !ps_.AllAre(PsState::kReady)) return false;
  SplitTable& table = *training_.table();
  std::optional<std::set<uint64_t>> withheld;
  for (const uint64_t id : table.IdsOf(session.id)) {
    LeaseState& lease = *table.Find(id);
    if (lease.backup) continue;
    const uint32_t end = std::min(lane_leases_.end(), table.EndOf(lease.split));
    if (end <= lease.end || !lane_leases_.StaysWith(lease.split, session.id)) continue;
    if (!withheld.has_value()) withheld = WithheldFrom(session);
    if (withheld->contains(lease.split)) continue;
    session.work.Extend(end - lease.end);
    AddProofs(*reply.add_lanes() = table.Extend(lease, end));
  }
  return reply.lanes_size() > 0;
}

// Repeats where the session's leases end, in case an earlier answer was lost.
void CoordinatorCore::SayEnds(const WorkerSession& session, WorkReply& reply) {
  if (!HasLanes() || !phases_.training() || training_.table() == nullptr) return;
  SplitTable& table = *training_.table();
  for (const uint64_t id : table.IdsOf(session.id)) {
    AddProofs(*reply.add_lanes() = table.Extend(*table.Find(id), 0));
  }
}

// Adds work for a session that asks for a task to `reply`: free lanes assigned to the session,
// extended leases, or a second lease of a lane that blocks the round. True if there is any.
bool CoordinatorCore::TryGiveLanes(WorkerSession& session, WorkReply& reply) {
  SplitTable& table = *training_.table();
  ExtendLanes(session, reply);
  std::vector<uint64_t> lanes;
  std::ranges::copy_if(table.free_lanes(), std::back_inserter(lanes), [&](uint64_t lane) {
    return lane_leases_.MayTake(lane, session.id, now_ms_);
  });
  const LaneFilter may_have = lanes.empty() ? LaneFilter() : LanesFor(session);
  const auto give = [&](Lease lease) {
    sessions_.TakeId();
    AddProofs(lease);
    NoteGrant(session, lease);
    *(reply.has_lease() ? reply.add_lanes() : reply.mutable_lease()) = std::move(lease);
  };
  for (const uint64_t lane : lanes) {
    if (!may_have(lane, table.NextOf(lane))) continue;
    give(table.GrantLane(lane, sessions_.next_id(), session.id, now_ms_, EndOfLeases()));
  }
  if (reply.has_lease() || reply.lanes_size() > 0) return true;
  std::optional<Lease> again = LeaseAgain(session);
  if (!again.has_value()) return false;
  give(*std::move(again));
  return true;
}

// Returns a predicate of (lane, round): whether the session may get a lease of the lane that begins
// with the round.
CoordinatorCore::LaneFilter CoordinatorCore::LanesFor(const WorkerSession& session) const {
  return [this, id = session.id, withheld = WithheldFrom(session), last = LastRoundOfLanes()](
             uint64_t lane, uint32_t round) {
    if (last.has_value() && round >= *last) return false;
    return !withheld.contains(lane) &&
           training_.table()->LeasesOf(id) < LeasesOfSessionMax(record_.plan());
  };
}

// Gives a session a second lease of a lane that blocks others, if there is one. With backup workers
// the lease is for one round: the round before the session's next batch, for which the session has
// waited long enough, or else the lane's next round.
std::optional<Lease> CoordinatorCore::LeaseAgain(const WorkerSession& session) {
  SplitTable& table = *training_.table();
  const bool backup = job_.guarantees.backup_factor.has_value();
  const bool late = backup && !session.late.empty();
  if (!late && lane_leases_.behind().empty()) return std::nullopt;
  const LaneFilter may_have = LanesFor(session);
  const uint64_t lease = sessions_.next_id();
  uint32_t next = std::numeric_limits<uint32_t>::max();
  for (const uint64_t id : table.IdsOf(session.id)) next = std::min(next, table.Find(id)->next);
  for (const uint32_t lane : late ? session.late : std::vector<uint32_t>()) {
    if (lane >= table.splits() || next > table.EndOf(lane) || next <= table.NextOf(lane)) continue;
    if (!may_have(lane, next - 1) || !table.IsWithAnother(lane, session.id)) continue;
    PROBE("coordinator.lane.backup");
    ++record_.counters().backups;
    return table.GrantBackup(lane, lease, session.id, now_ms_, next - 1);
  }
  for (const uint64_t lane : lane_leases_.behind()) {
    const uint32_t round = table.NextOf(lane);
    if (!may_have(lane, round) || !table.IsBehindWithAnother(lane, session.id)) continue;
    PROBE("coordinator.lane.straggler");
    if (!backup) return table.GrantLane(lane, lease, session.id, now_ms_, EndOfLeases());
    ++record_.counters().backups;
    return table.GrantBackup(lane, lease, session.id, now_ms_, round);
  }
  return std::nullopt;
}

// Frees all lanes if every holder reports that it waits and no lane has made progress for a while:
// some session has falsely reported batches, and a worker waits for a batch of its own lane. True
// if so; the caller then has the ledgers read again.
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

// Whether to read the ledgers to find out why a round takes so long: a lane whose batches were
// reported falsely looks as if it were ahead.
bool CoordinatorCore::RoundIsOld() const {
  return HasLanes() && lane_leases_.RoundIsOld(now_ms_) && now_ms_ - ps_.read_ms() >= kStragglerMs;
}

// The ledgers have been read. A batch is reported after every ps has answered its push, so a
// reported batch that the ledgers lack was never pushed: the lane is granted again, to another
// session than the one that reported the batch. In synchronous training one batch may be in the sum
// of a round.
void CoordinatorCore::DropUnfounded(const std::vector<uint32_t>& next) {
  SplitTable& table = *training_.table();
  const uint32_t pending = job_.guarantees.sync() ? 1 : 0;
  for (const auto& [lane, session] : table.UnfoundedIn(next, pending)) {
    table.EndAllOf(lane);
    training_.Abandon(lane);
    WorkerSession* const liar = sessions_.Find(session);
    if (liar != nullptr) sessions_.Rest(*liar, now_ms_, "reports batches that no ps has");
  }
}

}  // namespace paracord
