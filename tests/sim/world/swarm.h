// The faults of a simulated world, with rates drawn from its seed. Some worlds only lose messages,
// others only have failing disks, so that frequent faults do not drown rare combinations ("swarm
// testing"). By default all faults are off.
#pragma once

#include <cstdint>
#include <string>

#include "sim/world/sim_random.h"

namespace paracord {

struct Swarm {
  // Faults of messages, as shares of all messages.
  int64_t delay_us_min = 50;
  int64_t delay_us_max = 1000;
  double lose = 0;
  double duplicate = 0;
  double late = 0;       // delayed by 150 to 1500 ms
  double very_late = 0;  // delayed by 1.5 to 30 s, until a later generation or life of the receiver
  double break_link = 0;  // the caller sees a broken connection, but the request arrives
  double fragment = 0;    // the message arrives in several chunks
  // Share of deaths and cuts that peers notice late, by their own timeouts.
  double quiet = 0;

  // Network cuts between two hosts: mean time between cuts (0: no cuts), and longest duration.
  struct Cuts {
    int64_t every_ms = 0;
    int64_t ms_max = 5000;
    double one_way = 0;
  };
  Cuts cuts;

  // Faults of processes.
  int64_t kill_every_ms = 0;
  double machine_crash = 0;      // share of kills that crash the machine and lose unsynced data
  double kill_in_operation = 0;  // share of kills in the middle of a call or of a write
  double power_cut = 0;          // share of kills that hit all processes at once
  int64_t pause_every_ms = 0;
  int64_t pause_ms_max = 1800;
  int64_t restart_ms_min = 20;
  int64_t restart_ms_max = 200;
  int64_t clock_jump_every_ms = 0;  // mean time between jumps of a wall clock

  // Duration of work on an executor.
  int64_t work_us_min = 100;
  int64_t work_us_max = 2000;
  double slow_work = 0;  // share of work that takes 0.1 to 3 s

  // Faults of files: shares of operations, and mean times between periods.
  double sync_error = 0;
  double write_error = 0;
  double read_error = 0;
  double late_put = 0;  // share of object puts that land up to 5 s late, unanswered
  int64_t disk_full_every_ms = 0;
  int64_t read_only_every_ms = 0;
  int64_t disk_fault_ms_max = 3000;

  static Swarm Draw(SimRandom& random);
  // Returns the delays of this swarm without its faults, for a healed world.
  Swarm Healed() const;
  std::string ToString() const;
};

}  // namespace paracord
