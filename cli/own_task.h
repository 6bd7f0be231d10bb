// Decides which program `paracord run` becomes, and which it starts beside itself, for its task in
// a cluster. Pure.
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

// The flags of `paracord run`, of which each daemon gets those that it has. Empty: its default.
struct OwnTaskFlags {
  std::string job, dir, device = "auto";
  std::vector<std::string> set, accept_changes;  // of the coordinator
  std::string http;  // of the daemon that this process becomes, not of the one beside
  std::string log_level, log_format, memory_limit;
  std::optional<int64_t> threads;  // of workers, evaluators and parameter servers
  bool allow_programs = false;     // of workers and evaluators
  bool stay = false;               // of workers and parameter servers
  bool keep_job = false;           // of the coordinator
};

// Called only for a `cluster` that has a task.
OwnTask OwnTaskOf(const Cluster& cluster, const OwnTaskFlags& flags);

}  // namespace paracord
