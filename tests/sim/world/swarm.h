// The faults of a simulated world and their rates, which are drawn for each seed: in one world only
// messages get lost, in the next only disks fail, so that rare combinations are not drowned by
// frequent ones ("swarm testing"). All are off by default.
#pragma once

#include <cstdint>
#include <string>

#include "sim/world/sim_random.h"

namespace paracord {

struct Swarm {
  // Messages: shares of all messages.
  int64_t delay_us_min = 50;
  int64_t delay_us_max = 1000;
  double lose = 0;
  double duplicate = 0;
  double late = 0;        // by 150 to 1500 ms
  double very_late = 0;   // by 1.5 to 30 s: to a later generation, or a later life of the receiver
  double break_link = 0;  // the caller sees a broken connection, the request arrives all the same
  double fragment = 0;    // arrives in several chunks
  // The share of deaths and cuts of which the peers learn late, by their own timeouts, instead of
  // at once.
  double quiet = 0;

  // Cuts between two hosts: the mean time between them (0: there are none), and the longest time
  // until one heals.
  struct Cuts {
    int64_t every_ms = 0;
    int64_t ms_max = 5000;
    double one_way = 0;
  };
  Cuts cuts;

  // Processes.
  int64_t kill_every_ms = 0;
  double machine_crash = 0;      // of kills: unsynced data is lost
  double kill_in_operation = 0;  // of kills: in the middle of a call or of a write
  double power_cut = 0;          // of kills: all at once
  int64_t pause_every_ms = 0;
  int64_t pause_ms_max = 1800;
  int64_t restart_ms_min = 20;
  int64_t restart_ms_max = 200;
  int64_t clock_jump_every_ms = 0;  // of the wall clock

  // Long work: the time that an executor takes.
  int64_t work_us_min = 100;
  int64_t work_us_max = 2000;
  double slow_work = 0;  // takes 0.1 to 3 s

  // Files: shares of operations, and periods.
  double sync_error = 0;
  double write_error = 0;
  double read_error = 0;
  double late_put = 0;  // of puts to an object store: they land by up to 5 s later, unanswered
  int64_t disk_full_every_ms = 0;
  int64_t read_only_every_ms = 0;
  int64_t disk_fault_ms_max = 3000;

  static Swarm Draw(SimRandom& random);
  // Returns the delays without the faults, for a world that has been healed.
  Swarm Healed() const;
  std::string ToString() const;
};

}  // namespace paracord
