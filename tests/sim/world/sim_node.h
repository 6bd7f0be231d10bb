// A simulated process, from start to death: an event loop, an executor, random numbers, and views
// of network and files that die with the process. Made and kept by SimWorld. A role sees only
// environment().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/environment.h"
#include "sim/world/sim_random.h"

namespace paracord {

class SimObjectStore;
class SimWorld;

enum class Death {
  kExit,     // the process ended by itself
  kKill,     // kill -9: written data stays
  kMachine,  // power loss: unsynced data may go, and peers get no notice
};

class SimNode {
 public:
  enum class State { kLive, kDoomed, kDead };
  enum class Go { kGo, kDyingHere, kDead };

  SimNode(SimWorld& world, uint32_t id, uint32_t host, std::string name);
  ~SimNode();
  SimNode(const SimNode&) = delete;
  SimNode& operator=(const SimNode&) = delete;

  Environment environment();

  SimWorld& world() { return world_; }
  uint32_t id() const { return id_; }  // of this life; never reused
  uint32_t host() const { return host_; }
  const std::string& name() const { return name_; }
  State state() const { return state_; }
  bool live() const { return state_ == State::kLive; }
  bool paused() const { return paused_; }
  uint64_t events() const { return events_; }
  uint64_t operations() const { return operations_; }

  // Sets the function that destroys the role. The world calls it between events, after the death.
  void OnDeath(std::function<void(Death)> fn) { on_death_ = std::move(fn); }
  // Kills the process after its n-th event from now, or inside its n-th operation (a call, a reply,
  // a change of a file). The last operation has no effect; a write may have half.
  void DieAtEvent(uint64_t n, Death death) { die_at_event_ = events_ + n, death_ = death; }
  void DieAtOperation(uint64_t n, Death death) {
    die_at_operation_ = operations_ + n, death_ = death;
  }

  // Called by every view before any action that peers can observe.
  Go Operation();

 private:
  friend class SimWorld;
  class Loop;
  class SimExecutor;
  class NetworkView;

  void Doom() {
    if (state_ == State::kLive) state_ = State::kDoomed;
  }
  void EventRan();
  void Perish();

  SimWorld& world_;
  const uint32_t id_;
  const uint32_t host_;
  const std::string name_;
  State state_ = State::kLive;
  bool paused_ = false;
  std::vector<uint32_t> deferred_;  // slots of events held until Resume
  uint64_t events_ = 0;
  uint64_t operations_ = 0;
  uint64_t die_at_event_ = 0;  // 0: never
  uint64_t die_at_operation_ = 0;
  Death death_ = Death::kKill;
  std::function<void(Death)> on_death_;
  SimRandom random_;  // handed to the role
  SimRandom chance_;  // for delays
  const std::unique_ptr<Loop> loop_;
  const std::unique_ptr<SimExecutor> executor_;
  const std::unique_ptr<NetworkView> network_;
  const std::unique_ptr<SimObjectStore> store_;
  const std::unique_ptr<Files> files_;
};

}  // namespace paracord
