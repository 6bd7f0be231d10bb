// The health of a daemon for supervisors on its host, such as a kubelet's probe in the same pod.
// The daemon listens on an abstract unix socket whose name derives from the daemon's address. The
// answer depends only on the event loop, not on files, certificates or peers. Server and client
// check that the peer has their own user id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "monitor/monitor.h"

namespace paracord {

// Serves `source.health` for a daemon at `address`. Returns null if `address` is not host:port, or
// if another daemon of this user has the name; supervisors then ask over the network.
std::unique_ptr<Monitor> ServeLocalHealth(const std::string& address, EventLoop& loop,
                                          MonitorSource source);

struct LocalHealth {
  bool ready = false;
  std::string text;  // "ps:0 serves the job"
};
// Asks this user's daemon at `address` (a loopback address), or at the same port on all interfaces.
// Returns nullopt if no daemon is found on this host, and DEADLINE_EXCEEDED if its event loop does
// not answer.
std::optional<absl::StatusOr<LocalHealth>> AskLocalHealth(const std::string& address,
                                                          int64_t timeout_ms);

}  // namespace paracord
