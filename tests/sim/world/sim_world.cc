#include "sim/world/sim_world.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/probe.h"

namespace paracord {
namespace {

Swarm DrawSwarm(uint64_t seed) {
  SimRandom random(seed ^ 0x5EED5EED5EED5EEDu);
  return Swarm::Draw(random);
}

}  // namespace

SimWorld::SimWorld(uint64_t seed, std::optional<Swarm> swarm)
    : seed_(seed),
      swarm_(swarm.has_value() ? *swarm : DrawSwarm(seed)),
      storage_(*this),
      network_(*this) {}

SimWorld::~SimWorld() {
  // Kills all nodes while the network lives, because destructors of closures may call the network.
  for (const auto& node : nodes_) {
    if (node->state() != SimNode::State::kDead) Die(*node, Death::kKill);
  }
  std::vector<Event> events = std::exchange(events_, {});
  queue_.clear();
}

const char* SimWorld::Intern(std::string_view text) {
  return interned_.emplace(text).first->c_str();
}

SimNode& SimWorld::Start(const std::string& name, uint32_t host) {
  if (wall_offsets_ms_.size() <= host) wall_offsets_ms_.resize(host + 1, 1'700'000'000'000);
  const auto id = static_cast<uint32_t>(nodes_.size() + 1);
  nodes_.push_back(std::make_unique<SimNode>(*this, id, host, name));
  return *nodes_.back();
}

int64_t SimWorld::wall_offset_ms(uint32_t host) const { return wall_offsets_ms_[host]; }

void SimWorld::JumpWallClock(uint32_t host, int64_t by_ms) {
  PROBE("sim.clock_jump");
  if (host < wall_offsets_ms_.size()) wall_offsets_ms_[host] += by_ms;
}

SimWorld::EventId SimWorld::At(int64_t time_us, SimNode* node, EventKind kind, const char* label,
                               uint64_t detail, std::function<void()> fn) {
  if (node != nullptr && node->state() == SimNode::State::kDead) return 1;
  uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(events_.size());
    events_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  // The low bits of the id are the slot. The counter above tells events of a reused slot apart.
  const EventId id = (++made_ << 24) | slot;
  events_[slot] = {id, node, kind, label, detail, std::move(fn)};
  Push(std::max(time_us, now_us_), slot);
  return id;
}

void SimWorld::Push(int64_t time_us, uint32_t slot) {
  queue_.push_back({time_us, ++order_, slot});
  std::push_heap(queue_.begin(), queue_.end());
}

void SimWorld::CancelEvent(EventId id) {
  const uint64_t slot = id & 0xFFFFFF;
  if (slot >= events_.size() || events_[slot].id != id) return;
  // Destroys the closure last, because destructors of its captures may add or cancel events.
  const std::function<void()> fn = std::exchange(events_[slot].fn, nullptr);
}

SimWorld::Event SimWorld::TakeEvent(uint32_t slot) {
  Event event = std::exchange(events_[slot], Event());
  free_.push_back(slot);
  return event;
}

bool SimWorld::Step() {
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const Due due = queue_.back();
    queue_.pop_back();
    SimNode* const node = events_[due.slot].node;
    if (events_[due.slot].fn == nullptr) {
      TakeEvent(due.slot);
      continue;
    }
    now_us_ = due.time_us;
    if (node != nullptr && node->paused()) {
      node->deferred_.push_back(due.slot);
      continue;
    }
    Event event = TakeEvent(due.slot);
    RunEvent(node, event.kind, event.label, event.detail, std::move(event.fn));
    return true;
  }
  return false;
}

void SimWorld::RunEvent(SimNode* node, EventKind kind, const char* label, uint64_t detail,
                        std::function<void()> fn) {
  trace_.Record(now_us_, kind, node == nullptr ? 0 : node->id(), label, detail);
  ++steps_;
  ++depth_;
  try {
    fn();
  } catch (const std::exception& error) {  // an uncaught exception ends a real process
    Violation(absl::StrCat("an exception in ", label, ": ", error.what()));
  }
  fn = nullptr;  // captures die before the role does
  --depth_;
  if (node != nullptr) node->EventRan();
}

void SimWorld::RunOn(SimNode& node, EventKind kind, const char* label, uint64_t detail,
                     std::function<void()> fn) {
  if (!node.live()) return;
  if (node.paused()) {
    At(now_us_, &node, kind, label, detail, std::move(fn));
    return;
  }
  RunEvent(&node, kind, label, detail, std::move(fn));
}

SimWorld::End SimWorld::Run(int64_t until_ms, const std::function<bool()>& done) {
  while (true) {
    if (!violation_.empty()) return End::kViolation;
    if (done != nullptr && done()) return End::kDone;
    if (steps_ >= step_limit_) return End::kStepLimit;
    if (!queue_.empty() && queue_.front().time_us > until_ms * 1000) {
      now_us_ = until_ms * 1000;
      return End::kTimeLimit;
    }
    if (!Step()) return End::kQuiet;
    Settle();
    for (const auto& check : checks_) check();
  }
}

void SimWorld::Violation(std::string_view what) {
  if (violation_.empty()) violation_ = what;
}

std::string SimWorld::Report() const {
  return absl::StrCat("seed ", seed_, " at ", now_us_, " us, step ", steps_, ": ",
                      violation_.empty() ? "no violation" : violation_, "\n", swarm_.ToString(),
                      "\n", trace_.Last(60));
}

void SimWorld::Kill(SimNode& node, Death death) {
  node.Doom();
  to_kill_.emplace_back(&node, death);
  if (depth_ == 0) Settle();
}

void SimWorld::CrashMachines(const std::vector<uint32_t>& hosts) {
  PROBE("sim.machine_crash");
  for (const auto& node : nodes_) {
    if (node->state() == SimNode::State::kDead) continue;
    if (std::find(hosts.begin(), hosts.end(), node->host()) == hosts.end()) continue;
    node->Doom();
    to_kill_.emplace_back(node.get(), Death::kMachine);
  }
  to_lose_power_.insert(to_lose_power_.end(), hosts.begin(), hosts.end());
  if (depth_ == 0) Settle();
}

void SimWorld::Settle() {
  if (to_kill_.empty() && to_lose_power_.empty()) return;
  for (size_t i = 0; i < to_kill_.size(); ++i) {
    const auto [node, death] = to_kill_[i];
    if (node->state() != SimNode::State::kDead) Die(*node, death);
  }
  to_kill_.clear();
  for (const uint32_t host : to_lose_power_) storage_.PowerLoss(host);
  to_lose_power_.clear();
}

void SimWorld::Die(SimNode& node, Death death) {
  trace_.Record(now_us_, EventKind::kDeath, node.id(), Intern(node.name()),
                static_cast<uint64_t>(death));
  node.state_ = SimNode::State::kDead;
  DropEvents(node);
  network_.NodeDied(node, death);
  if (node.on_death_ != nullptr) std::exchange(node.on_death_, nullptr)(death);
}

void SimWorld::DropEvents(SimNode& node) {
  // Moves the closures out before destroying them, because a destructor may call the world.
  std::vector<std::function<void()>> dropped;
  for (Event& event : events_) {
    if (event.id == 0 || event.node != &node) continue;
    dropped.push_back(std::exchange(event.fn, nullptr));
    event.node = nullptr;
  }
  for (const uint32_t slot : std::exchange(node.deferred_, {})) Push(now_us_, slot);
}

void SimWorld::Pause(SimNode& node) {
  if (!node.live() || node.paused_) return;
  PROBE("sim.pause");
  node.paused_ = true;
}

void SimWorld::Resume(SimNode& node) {
  if (!node.paused_) return;
  node.paused_ = false;
  for (const uint32_t slot : std::exchange(node.deferred_, {})) Push(now_us_, slot);
}

}  // namespace paracord
