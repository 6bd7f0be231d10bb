// Keeps the processes of a simulated cluster running: starts the role of each place, destroys the
// role when the process dies, and restarts it after a random delay. Owned by a test, and destroyed
// before the world.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/world/sim_world.h"

namespace paracord {

// The role at a place, with all that the role's main() would own. Destroyed after the node's death.
class SimProcess {
 public:
  virtual ~SimProcess() = default;
};

class Supervisor {
 public:
  // Makes the role for a new node. A role that ends by itself calls Exit.
  using Factory = std::function<std::unique_ptr<SimProcess>(SimNode& node)>;

  explicit Supervisor(SimWorld& world);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Adds a place and starts its process now. Returns the index of the place, also used as host
  // number.
  uint32_t AddPlace(std::string name, Factory factory);
  // Kills all processes. No present place is restarted.
  void StopAll();
  // Ends the process of `node` after the running event, as if its role had called exit().
  void Exit(SimNode& node, int exit_code);
  // Sets a function that decides whether to restart a process that called Exit. Default: never.
  void RestartAfterExit(std::function<bool(uint32_t place, int exit_code)> asked) {
    restart_ = std::move(asked);
  }

  size_t places() const { return places_.size(); }
  const std::string& name(uint32_t place) const { return places_[place].name; }
  SimNode* node(uint32_t place) const { return places_[place].node; }  // null: not running
  SimProcess* process(uint32_t place) const { return places_[place].process.get(); }
  uint64_t starts(uint32_t place) const { return places_[place].starts; }
  bool exited(uint32_t place) const { return places_[place].exited; }       // for good
  int exit_code(uint32_t place) const { return places_[place].exit_code; }  // of the last exit

 private:
  struct Place {
    std::string name;
    Factory factory;
    SimNode* node = nullptr;
    std::unique_ptr<SimProcess> process;
    uint64_t starts = 0;
    bool exited = false;
    int exit_code = -1;
  };

  void Start(uint32_t place);
  void Died(uint32_t place, Death death);

  SimWorld& world_;
  SimRandom chance_;
  std::vector<Place> places_;
  std::function<bool(uint32_t, int)> restart_;
};

}  // namespace paracord
