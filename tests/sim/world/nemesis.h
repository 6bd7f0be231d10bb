// Does to a supervised cluster what the world's Swarm says: kills, crashes, pauses, cuts, full and
// read-only disks, jumping wall clocks, until it is told to heal everything. Owned by a test.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/world/sim_random.h"
#include "sim/world/supervisor.h"

namespace paracord {

class Nemesis {
 public:
  Nemesis(SimWorld& world, Supervisor& supervisor);

  void Start();
  // No more faults from now on; cuts, pauses and disks heal at once.
  void Heal();
  uint64_t faults() const { return faults_; }

 private:
  // Does `fault` every now and then, `every_ms` on average. 0: never.
  void Every(int64_t every_ms, const char* label, void (Nemesis::*fault)());
  void AfterMs(int64_t delay_ms, const char* label, std::function<void()> fn);
  void Kill();
  void Pause();
  void Cut();
  void FillDisk();
  void MakeReadOnly();
  void JumpClock();
  SimNode* PickNode();

  SimWorld& world_;
  Supervisor& supervisor_;
  SimRandom chance_;
  uint64_t faults_ = 0;
  bool healed_ = false;
};

}  // namespace paracord
