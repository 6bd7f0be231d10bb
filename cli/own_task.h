// Finds the daemon that `paracord run` becomes for the task of this process in a cluster, and the
// child process, if any, that `paracord run` starts before. Pure.
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

// The flags of `paracord run`. A daemon gets those that it accepts; an empty one means the daemon's
// default.
struct OwnTaskFlags {
  std::string job, dir, device = "auto";
  std::vector<std::string> set, accept_changes;  // for the coordinator
  std::string http;                              // for `becomes`, not for `beside`
  std::string log_level, log_format, memory_limit;
  std::optional<int64_t> threads;  // for workers, evaluators and parameter servers
  bool allow_programs = false;     // for workers and evaluators
  bool stay = false;               // for workers and parameter servers
  bool keep_job = false;           // for the coordinator
};

// Called only for a `cluster` that has a task.
OwnTask OwnTaskOf(const Cluster& cluster, const OwnTaskFlags& flags);

}  // namespace paracord
