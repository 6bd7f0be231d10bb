// Finds the daemon that `paracord run` becomes for this process's task in a cluster, and the child
// process, if any, that `paracord run` starts before it becomes the daemon. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/cluster.h"

namespace paracord {

struct OwnTask {
  std::vector<std::string> becomes;  // the daemon's name and its arguments
  std::vector<std::string> beside;   // the command of the child; empty: no child
};

// The flags of `paracord run`. Each daemon gets the flags that it accepts. An empty flag is not
// passed on: the daemon then has its default.
struct OwnTaskFlags {
  std::string job, dir, device = "auto";
  std::vector<std::string> set, accept_changes;  // for the coordinator and nodes
  std::string http;                              // for the daemon, not for the child
  std::string log_level, log_format, memory_limit;
  std::optional<int64_t> threads;  // for workers, evaluators and parameter servers
  bool allow_programs = false;     // for workers and evaluators
  bool stay = false;               // for workers and parameter servers
  bool keep_job = false;           // for the coordinator and nodes
};

// `cluster` has the task of this process.
OwnTask OwnTaskOf(const Cluster& cluster, const OwnTaskFlags& flags);

}  // namespace paracord
