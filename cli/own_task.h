// Which programs a process becomes and starts for its task in a cluster. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/cluster.h"

namespace paracord {

struct OwnTask {
  std::vector<std::string> becomes;  // the daemon's name and its arguments
  std::vector<std::string> beside;   // a child that is started first; empty: none
};

// `cluster` has a task.
OwnTask OwnTaskOf(const Cluster& cluster, const std::string& job, const std::string& dir,
                  const std::string& device);

}  // namespace paracord
