// Lets a daemon's first process start the daemon again where a restart may help, as a supervisor
// would: the first process of a container ends with the container, and Kubernetes starts that again
// later and later. Called before there is any other thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace paracord {

struct RestartOptions {
  int64_t restarts_max = 0;      // consecutive restarts; 0: the caller is the daemon itself
  int64_t first_pause_ms = 250;  // before the second restart, then doubled
  // A daemon that ran for this long resets the count.
  int64_t sound_ms = 600000;
  std::string task;  // for messages
};

// Returns nullopt in the daemon's process, and the exit code in the parent: the code of a daemon
// that no restart can help, or of the last allowed restart. The parent forwards SIGTERM, SIGINT and
// SIGHUP to the daemon and then stops restarting. The parent reaps orphans of the daemon.
std::optional<int> RestartWhereItHelps(const RestartOptions& options);

}  // namespace paracord
