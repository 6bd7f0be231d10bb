// The part of SimNetwork that ends calls without a reply: deaths of processes, network cuts and
// cancellations, and the delay until each side notices.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"
#include "sim/world/sim_network.h"
#include "sim/world/sim_server_call.h"
#include "sim/world/sim_world.h"

namespace paracord {
namespace {

absl::Status PeerDied() { return absl::UnavailableError("peer died"); }

}  // namespace

SimNetwork::SimServerCall::SimServerCall(SimNetwork& network, ServerCallKey key,
                                         const Listening& listening, const Message& message)
    : network_(network),
      key_(key),
      node_(*listening.node),
      listening_(listening.id),
      client_(*message.from),
      method_(message.method),
      deadline_us_(message.deadline_us) {
  network_.server_calls_.emplace(key_, this);
}

SimNetwork::SimServerCall::~SimServerCall() {
  if (network_.server_calls_.erase(key_) == 0) return;
  if (node_.live()) {
    PROBE("sim.call_dropped");
    network_.SendReply(*this, absl::CancelledError("dropped by the server"));
  } else {
    network_.FailLater(call(), network_.NoticeDelay(true), PeerDied());
  }
}

void SimNetwork::SimServerCall::Reply(absl::StatusOr<Parts> reply) {
  if (!node_.live()) return;
  if (replied_) {
    network_.world_.Violation(absl::StrCat("second reply to one call of ", method_));
    return;
  }
  replied_ = true;
  network_.server_calls_.erase(key_);
  const std::function<void()> dropped = std::exchange(on_cancel_, nullptr);
  network_.SendReply(*this, std::move(reply));
}

void SimNetwork::SimServerCall::OnCancel(std::function<void()> fn) {
  if (replied_ || !node_.live()) return;
  if (cancelled_) return fn();
  on_cancel_ = std::move(fn);
}

void SimNetwork::SimServerCall::Cancelled() {
  cancelled_ = true;
  const std::function<void()> fn = std::exchange(on_cancel_, nullptr);
  if (fn == nullptr) return;
  PROBE("sim.cancel_delivered");
  fn();
}

void SimNetwork::ListenerGone(const std::string& address, uint64_t id) {
  const auto it = listeners_.find(address);
  if (it == listeners_.end() || it->second.id != id) return;  // the listener's process is dead
  listeners_.erase(it);
  // A real listener cancels its parked calls before its destructor returns.
  std::vector<ServerCallKey> open;
  for (const auto& [key, server] : server_calls_) {
    if (server->listening() == id) open.push_back(key);
  }
  for (const ServerCallKey& key : open) {
    FailLater(key.first, NoticeDelay(false),
              absl::UnavailableError("the server stopped listening"));
    CancelNow(key);
  }
}

void SimNetwork::FailLater(uint64_t call, int64_t delay_us, absl::Status status) {
  const auto it = calls_.find(call);
  if (it == calls_.end()) return;
  world_.After(delay_us, it->second.client, EventKind::kFailure, it->second.method,
               static_cast<uint64_t>(status.code()), [this, call, status] {
                 CancelLater(call, false);
                 Finish(call, status);
               });
}

void SimNetwork::FailSoonOrLate(uint64_t call, const char* why) {
  FailLater(call, NoticeDelay(chance_.Chance(0.5)), absl::UnavailableError(why));
}

void SimNetwork::Finish(uint64_t call, absl::StatusOr<absl::Cord> result) {
  const auto it = calls_.find(call);
  if (it == calls_.end()) return;
  const ReplyFn done = std::move(it->second.done);
  const uint64_t deadline_event = it->second.deadline_event;
  calls_.erase(it);
  world_.CancelEvent(deadline_event);
  done(std::move(result));
}

void SimNetwork::CancelLater(uint64_t call, bool late) {
  for (auto it = server_calls_.lower_bound({call, 0});
       it != server_calls_.end() && it->first.first == call; ++it) {
    SimServerCall& server = *it->second;
    int64_t at_us = world_.now_us() + NoticeDelay(late);
    // The server knows the call's deadline, and cancels at the deadline at the latest.
    at_us = std::min(at_us, std::max(server.deadline_us(), world_.now_us()) + NoticeDelay(false));
    world_.At(at_us, &server.node(), EventKind::kCancel, server.method(), call,
              [this, key = it->first] { CancelNow(key); });
  }
}

void SimNetwork::CancelNow(ServerCallKey key) {
  const auto it = server_calls_.find(key);
  if (it != server_calls_.end() && !it->second->cancelled()) it->second->Cancelled();
}

// A real link runs every `done` before its destructor returns.
void SimNetwork::LinkGone(SimNode& node, uint64_t link) {
  if (!node.live()) return;
  std::vector<uint64_t> open;
  for (const auto& [id, call] : calls_) {
    if (call.link == link) open.push_back(id);
  }
  for (const uint64_t id : open) {
    PROBE("sim.link_destroyed");
    CancelLater(id, false);
    Finish(id, absl::CancelledError("link destroyed"));
  }
}

void SimNetwork::NodeDied(SimNode& node, Death death) {
  const bool quiet = death == Death::kMachine || chance_.Chance(world_.swarm().quiet);
  if (quiet) PROBE("sim.quiet_death");
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second.node == &node; });
  // Closures are destroyed at the end, because a closure of the dead process may call the network.
  std::vector<ReplyFn> never_run;
  std::vector<std::function<void()>> never_cancelled;
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second.client != &node) {
      ++it;
      continue;
    }
    CancelLater(it->first, quiet);
    never_run.push_back(std::move(it->second.done));
    it = calls_.erase(it);
  }
  for (auto it = server_calls_.begin(); it != server_calls_.end();) {
    SimServerCall& server = *it->second;
    if (&server.node() != &node) {
      ++it;
      continue;
    }
    never_cancelled.push_back(server.Abandon());
    FailLater(server.call(), NoticeDelay(quiet), PeerDied());
    it = server_calls_.erase(it);
  }
  // Messages in flight are copied, because their bytes may lie in memory of the dead process.
  for (auto& [id, message] : messages_) {
    if (message.from == &node && message.bytes.ok()) {
      message.bytes = absl::Cord(std::string(*message.bytes));
    }
  }
}

void SimNetwork::Cut(uint32_t from, uint32_t to) {
  PROBE("sim.cut");
  if (!cuts_.insert({from, to}).second) return;
  BreakAcross(from, to);
}

// Breaks the calls that are parked across a cut. One side notices at once, or later if the cut
// still stands; then the peer follows.
void SimNetwork::BreakAcross(uint32_t a, uint32_t b) {
  for (const auto& [key, server] : server_calls_) {
    const uint32_t client = server->client().host();
    const uint32_t host = server->node().host();
    if (!(client == a && host == b) && !(client == b && host == a)) continue;
    const bool at_once = chance_.Chance(0.2);
    const auto stands = [this, a, b, at_once] { return at_once || IsCut(a, b); };
    world_.After(NoticeDelay(!at_once), &server->client(), EventKind::kFailure, "cut", key.first,
                 [this, call = key.first, stands] {
                   if (!stands() || !calls_.contains(call)) return;
                   PROBE("sim.cut_breaks_call");
                   CancelLater(call, true);
                   Finish(call, absl::UnavailableError("cut off"));
                 });
    world_.After(NoticeDelay(!at_once), &server->node(), EventKind::kCancel, "cut", key.first,
                 [this, key = key, stands] {
                   if (!stands() || !server_calls_.contains(key)) return;
                   PROBE("sim.cut_cancels_server_call");
                   FailLater(key.first, NoticeDelay(true), PeerDied());
                   CancelNow(key);
                 });
  }
}

void SimNetwork::Heal(uint32_t from, uint32_t to) {
  if (cuts_.erase({from, to}) == 0) return;
  const auto held = held_.extract({from, to});
  if (held.empty()) return;
  for (const auto& arrive : held.mapped()) {
    world_.After(Delay(), nullptr, EventKind::kWorld, "heal", 0, arrive);
  }
}

void SimNetwork::HealAll() {
  const std::set<std::pair<uint32_t, uint32_t>> cuts = cuts_;
  for (const auto& [from, to] : cuts) Heal(from, to);
}

}  // namespace paracord
