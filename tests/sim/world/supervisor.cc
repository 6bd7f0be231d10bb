#include "sim/world/supervisor.h"

#include <utility>

#include "common/probe.h"

namespace paracord {

Supervisor::Supervisor(SimWorld& world) : world_(world), chance_(world.Fork(3)) {}

Supervisor::~Supervisor() { StopAll(); }

void Supervisor::StopAll() {
  for (Place& place : places_) {
    place.exited = true;  // not started again
    if (place.node != nullptr) world_.Kill(*place.node, Death::kKill);
  }
}

uint32_t Supervisor::AddPlace(std::string name, Factory factory) {
  const auto place = static_cast<uint32_t>(places_.size());
  places_.emplace_back();
  places_.back().name = std::move(name);
  places_.back().factory = std::move(factory);
  Start(place);
  return place;
}

void Supervisor::Start(uint32_t index) {
  SimNode& node = world_.Start(places_[index].name, index);
  Place& place = places_[index];
  place.node = &node;
  ++place.starts;
  node.OnDeath([this, index](Death death) { Died(index, death); });
  // Starts the role in a separate event, because the process may die during its start.
  world_.After(0, &node, EventKind::kPost, "start", place.starts,
               [this, index, &node] { places_[index].process = places_[index].factory(node); });
}

void Supervisor::Exit(SimNode& node, int exit_code) {
  Place& place = places_[node.host()];
  if (place.node != &node || !node.live()) return;
  place.exit_code = exit_code;
  world_.Kill(node, Death::kExit);
}

void Supervisor::Died(uint32_t index, Death death) {
  Place& place = places_[index];
  place.node = nullptr;
  place.process.reset();
  if (place.exited) return;
  if (death == Death::kExit && (restart_ == nullptr || !restart_(index, place.exit_code))) {
    place.exited = true;
    return;
  }
  const Swarm& swarm = world_.swarm();
  const int64_t delay_ms = chance_.Between(swarm.restart_ms_min, swarm.restart_ms_max);
  world_.After(delay_ms * 1000, nullptr, EventKind::kWorld, "restart", index, [this, index] {
    if (places_[index].exited) return;
    PROBE("sim.restart");
    Start(index);
  });
}

}  // namespace paracord
