// Kills tasks of a cluster at random. PARACORD_E2E_SEED repeats a sequence.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "e2e/cluster.h"

namespace paracord::e2e {

struct Kills {
  std::vector<std::string> tasks;  // "child of worker:1" is a child process of that worker
  int count = 0;
  uint64_t batches = 0;   // in the whole job
  int64_t most_ms = 900;  // longest time between two kills
};

// Kills tasks with SIGKILL at random moments, and supervises the cluster. Each round kills every
// task once, in random order. All kills come before four fifths of the job's batches, however fast
// the machine is; otherwise the test fails. Returns the pids of the workers' children seen.
std::set<pid_t> KillAtRandom(Cluster& cluster, const Kills& kills);

}  // namespace paracord::e2e
