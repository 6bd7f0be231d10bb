// Inflicts on a supervised cluster the faults of the world's Swarm: kills, crashes, pauses, cuts,
// full and read-only disks, jumping wall clocks, until it is told to heal everything. Owned by a
// test.
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
  // Ends all faults; cuts, pauses and disks heal at once.
  void Heal();
  uint64_t faults() const { return faults_; }

 private:
  // Calls `fault` again and again, every `every_ms` on average; never if that is 0.
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
