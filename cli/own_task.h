// Decides which program `paracord run` becomes, and which it starts beside itself, for its task in
// a cluster. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/cluster.h"

namespace paracord {

struct OwnTask {
  std::vector<std::string> becomes;  // the daemon's name and its arguments
  std::vector<std::string> beside;   // a child that is started first; empty: none
};

// Called only for a `cluster` that has a task.
OwnTask OwnTaskOf(const Cluster& cluster, const std::string& job, const std::string& dir,
                  const std::string& device);

}  // namespace paracord
