// Finds the daemon that `paracord run` becomes for its task in a cluster, and the child process, if
// any, to start first. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/cluster.h"

namespace paracord {

struct OwnTask {
  std::vector<std::string> becomes;  // the daemon's name and its arguments
  std::vector<std::string> beside;   // a child that is started first; empty: none
};

// The flags of `paracord run`; each daemon gets the flags that it has. Empty: the daemon's default.
struct OwnTaskFlags {
  std::string job, dir, device = "auto";
  std::vector<std::string> set, accept_changes;  // for the coordinator
  std::string http;                              // only for the daemon that this process becomes
  std::string log_level, log_format, memory_limit;
  std::optional<int64_t> threads;  // for workers, evaluators and parameter servers
  bool allow_programs = false;     // for workers and evaluators
  bool stay = false;               // for workers and parameter servers
  bool keep_job = false;           // for the coordinator
};

// Called only for a `cluster` that has a task.
OwnTask OwnTaskOf(const Cluster& cluster, const OwnTaskFlags& flags);

}  // namespace paracord
