// The health of a daemon for a supervisor on its own host, such as a kubelet's probe in the same
// pod: a socket with an abstract name that follows from where the daemon listens. The answer
// depends on the event loop alone, and on no file, certificate or peer. Only processes of the
// daemon's own user ask there, and they check that this user answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "monitor/monitor.h"

namespace paracord {

// Serves `source.health` for a daemon that listens at `address`. Null for an address that is no
// host:port, or if another daemon of this user has the name, which is none of that one's business:
// supervisors then ask over the network.
std::unique_ptr<Monitor> ServeLocalHealth(const std::string& address, EventLoop& loop,
                                          MonitorSource source);

struct LocalHealth {
  bool ready = false;
  std::string text;  // "ps:0 serves the job"
};
// Asks the daemon of this user that listens at `address`, a loopback one, or at its port on all
// interfaces. nullopt
// if no such daemon is on this host; DEADLINE_EXCEEDED if its event loop does not answer.
std::optional<absl::StatusOr<LocalHealth>> AskLocalHealth(const std::string& address,
                                                          int64_t timeout_ms);

}  // namespace paracord
