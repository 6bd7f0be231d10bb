// Random kills of a cluster's tasks, whose seed PARACORD_E2E_SEED gives again.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "e2e/cluster.h"

namespace paracord::e2e {

struct Kills {
  std::vector<std::string> tasks;  // "child of worker:1" is the child process of that worker
  int count = 0;
  uint64_t batches = 0;   // of the whole job
  int64_t most_ms = 900;  // between one kill and the next
};

// Kills tasks with SIGKILL at random moments and in a random order, in which each has its turn
// before one has another, and starts them again. However fast the
// machine is, all kills come before the job has done four fifths of its batches, which is checked.
// Returns the ids of the workers' child processes that it has seen.
std::set<pid_t> KillAtRandom(Cluster& cluster, const Kills& kills);

}  // namespace paracord::e2e
