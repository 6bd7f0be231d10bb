// Injects the faults of the world's Swarm into a supervised cluster, until Heal(): kills, crashes,
// pauses, network cuts, full and read-only disks, jumps of wall clocks. Owned by a test.
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
  // Calls `fault` repeatedly, every `every_ms` on average. 0: never.
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
