// The health of a daemon for supervisors on its host, such as a kubelet's probe in the same pod.
// The daemon listens on an abstract unix socket whose name is made of the user's id and the
// daemon's address. An answer needs the daemon's event loop, but no file, certificate or peer. The
// client checks that the daemon runs as the client's user.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "monitor/monitor.h"

namespace paracord {

// Serves `source` (monitor.h) on the abstract socket of a daemon at `address`. Returns null if
// `address` is not host:port, or if the socket cannot be opened, perhaps because another daemon of
// this user has one of that name; supervisors then ask over the network.
std::unique_ptr<Monitor> ServeLocalHealth(const std::string& address, EventLoop& loop,
                                          MonitorSource source);

struct LocalHealth {
  bool ready = false;
  std::string text;  // such as "ps:0 is draining"
};
// Asks a daemon of this user that listens at `address`, or at the port of `address` on all
// interfaces or at a host name. Returns nullopt if no such daemon is on this host,
// DEADLINE_EXCEEDED if the daemon does not answer within `timeout_ms`, and UNAVAILABLE if the
// daemon gives no HTTP answer.
std::optional<absl::StatusOr<LocalHealth>> AskLocalHealth(const std::string& address,
                                                          int64_t timeout_ms);

}  // namespace paracord
