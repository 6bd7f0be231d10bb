#include "sim/world/nemesis.h"

#include <utility>
#include <vector>

#include "common/probe.h"

namespace paracord {

Nemesis::Nemesis(SimWorld& world, Supervisor& supervisor)
    : world_(world), supervisor_(supervisor), chance_(world.Fork(4)) {}

void Nemesis::Start() {
  const Swarm& swarm = world_.swarm();
  Every(swarm.kill_every_ms, "nemesis.kill", &Nemesis::Kill);
  Every(swarm.pause_every_ms, "nemesis.pause", &Nemesis::Pause);
  Every(swarm.cuts.every_ms, "nemesis.cut", &Nemesis::Cut);
  Every(swarm.disk_full_every_ms, "nemesis.disk_full", &Nemesis::FillDisk);
  Every(swarm.read_only_every_ms, "nemesis.read_only", &Nemesis::MakeReadOnly);
  Every(swarm.clock_jump_every_ms, "nemesis.clock_jump", &Nemesis::JumpClock);
}

void Nemesis::Heal() {
  healed_ = true;
  world_.swarm() = world_.swarm().Healed();
  world_.network().HealAll();
  world_.storage().faults() = {};
  for (uint32_t place = 0; place < supervisor_.places(); ++place) {
    if (supervisor_.node(place) != nullptr) world_.Resume(*supervisor_.node(place));
  }
}

void Nemesis::AfterMs(int64_t delay_ms, const char* label, std::function<void()> fn) {
  world_.After(delay_ms * 1000, nullptr, EventKind::kWorld, label, 0, [this, fn = std::move(fn)] {
    if (!healed_) fn();
  });
}

void Nemesis::Every(int64_t every_ms, const char* label, void (Nemesis::*fault)()) {
  if (every_ms == 0) return;
  AfterMs(chance_.Between(1, 2 * every_ms), label, [this, every_ms, label, fault] {
    ++faults_;
    (this->*fault)();
    Every(every_ms, label, fault);
  });
}

SimNode* Nemesis::PickNode() {
  const auto last = static_cast<int64_t>(supervisor_.places()) - 1;
  SimNode* const node = supervisor_.node(static_cast<uint32_t>(chance_.Between(0, last)));
  return node != nullptr && node->live() ? node : nullptr;
}

void Nemesis::Kill() {
  const Swarm& swarm = world_.swarm();
  if (chance_.Chance(swarm.power_cut)) {
    PROBE("sim.power_cut");
    std::vector<uint32_t> hosts;
    for (uint32_t place = 0; place < supervisor_.places(); ++place) hosts.push_back(place);
    return world_.CrashMachines(hosts);
  }
  SimNode* const node = PickNode();
  if (node == nullptr) return;
  const bool machine = chance_.Chance(swarm.machine_crash);
  const Death death = machine ? Death::kMachine : Death::kKill;
  const auto n = static_cast<uint64_t>(chance_.Between(1, 20));
  if (chance_.Chance(swarm.kill_in_operation)) return node->DieAtOperation(n, death);
  if (chance_.Chance(0.2)) return node->DieAtEvent(n, death);
  if (machine) return world_.CrashMachines({node->host()});
  PROBE("sim.kill");
  world_.Kill(*node, Death::kKill);
}

void Nemesis::Pause() {
  SimNode* const node = PickNode();
  if (node == nullptr || node->paused()) return;
  world_.Pause(*node);
  AfterMs(chance_.Between(10, world_.swarm().pause_ms_max), "nemesis.resume",
          [this, node] { world_.Resume(*node); });
}

void Nemesis::Cut() {
  const auto last = static_cast<int64_t>(supervisor_.places()) - 1;
  const auto a = static_cast<uint32_t>(chance_.Between(0, last));
  const auto b = static_cast<uint32_t>(chance_.Between(0, last));
  if (a == b) return;
  const bool one_way = chance_.Chance(world_.swarm().cuts.one_way);
  if (one_way) PROBE("sim.cut_one_way");
  world_.network().Cut(a, b);
  if (!one_way) world_.network().Cut(b, a);
  AfterMs(chance_.Between(10, world_.swarm().cuts.ms_max), "nemesis.heal_cut", [this, a, b] {
    world_.network().Heal(a, b);
    world_.network().Heal(b, a);
  });
}

void Nemesis::FillDisk() {
  world_.storage().faults().free_bytes = static_cast<uint64_t>(chance_.Between(0, 4096));
  AfterMs(chance_.Between(10, world_.swarm().disk_fault_ms_max), "nemesis.disk_freed",
          [this] { world_.storage().faults().free_bytes.reset(); });
}

void Nemesis::MakeReadOnly() {
  world_.storage().faults().read_only = true;
  AfterMs(chance_.Between(10, world_.swarm().disk_fault_ms_max), "nemesis.writable",
          [this] { world_.storage().faults().read_only = false; });
}

void Nemesis::JumpClock() {
  const auto last = static_cast<int64_t>(supervisor_.places()) - 1;
  world_.JumpWallClock(static_cast<uint32_t>(chance_.Between(0, last)),
                       chance_.Between(-86'400'000, 86'400'000));
}

}  // namespace paracord
