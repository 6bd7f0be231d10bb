// Lets the first process of a daemon start the daemon again where a restart may help, as a
// supervisor would. A container ends with its first process, and Kubernetes waits longer and longer
// before it starts the container again. Called before there is any other thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace paracord {

struct RestartOptions {
  int64_t restarts_max = 0;  // most restarts in a row; 0: the caller is the daemon, and forks none
  // Pause before the second restart in a row; each later pause is twice as long, up to 8 s.
  int64_t first_pause_ms = 250;
  // After a daemon has run for this long, restarts are counted from 0 again.
  int64_t sound_ms = 600000;
  std::string task;  // name of the daemon, for the log
};

// Forks the daemon. Returns nullopt in the daemon. In the parent, returns the exit code of the last
// daemon, once a restart would not help or no more are allowed; kPeerLost if no process could be
// forked. The parent forwards SIGTERM, SIGINT and SIGHUP to the daemon and then restarts it no
// more; if such a signal comes in a pause, the parent returns kDrained. Like the first process of
// a container, the parent reaps processes whose own parent has ended.
std::optional<int> RestartWhereItHelps(const RestartOptions& options);

}  // namespace paracord
