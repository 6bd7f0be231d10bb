// Lets a daemon's first process start the daemon again where a restart may help, as a supervisor
// would: the first process of a container ends with the container, and Kubernetes starts that again
// later and later. Called before there is any other thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace paracord {

struct RestartOptions {
  int64_t restarts_max = 0;      // one after the other; 0: the caller is the daemon itself
  int64_t first_pause_ms = 250;  // before the second restart, then doubled
  // A daemon that ran for so long begins to count anew.
  int64_t sound_ms = 600000;
  std::string task;  // for messages
};

// Returns nullopt in the process that is to be the daemon, and in the first one the code to leave
// with: that of a daemon which no restart can help, or of the last of too many. SIGTERM, SIGINT and
// SIGHUP go on to the daemon, and end the restarting. What the daemon leaves behind is waited for.
std::optional<int> RestartWhereItHelps(const RestartOptions& options);

}  // namespace paracord
