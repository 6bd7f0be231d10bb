// Lets the first process of a daemon start the daemon again where a restart may help, as a
// supervisor would: a container ends with its first process, and Kubernetes waits longer and longer
// before it starts the container again. Called before there is any other thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace paracord {

struct RestartOptions {
  int64_t restarts_max = 0;  // most restarts in a row; 0: no parent, the caller is the daemon
  // Pause before the second restart; each later one is twice as long, up to 8 s.
  int64_t first_pause_ms = 250;
  // A daemon that has run for this long begins a new row of restarts.
  int64_t sound_ms = 600000;
  std::string task;  // name of the daemon, for the log
};

// Forks the daemon. Returns nullopt in its process, and in the parent the exit code: that of a
// daemon that no restart can help, or of the last restart allowed; kPeerLost: no process could be
// forked. The parent forwards SIGTERM, SIGINT and SIGHUP to the daemon, and then restarts it no
// more; during a pause they make it return kDrained. The parent reaps the daemon's orphans.
std::optional<int> RestartWhereItHelps(const RestartOptions& options);

}  // namespace paracord
