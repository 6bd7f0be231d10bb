// Sockets for addresses as clusters have them: "host:port", "[v6]:port" or "unix:/path".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

struct ListeningSockets {
  std::vector<int> fds;     // not blocking; one for each address that a host's name has
  std::string address;      // with the port that was chosen when 0 was asked for
  std::string socket_path;  // of a unix socket, to be removed in the end
};
// ALREADY_EXISTS when somebody listens there; INVALID_ARGUMENT names what else is wrong with it.
absl::StatusOr<ListeningSockets> ListenAt(const std::string& address);

// Connected, not blocking. UNAVAILABLE, also when `patience_ms` are over. May ask a name server.
absl::StatusOr<int> ConnectSocket(const std::string& address, int64_t patience_ms);

// What a TCP connection of ours wants: no delay, and an end when an idle peer has gone. These do
// nothing to other sockets.
void SetStreamOptions(int fd);
// Ends the connection also when its peer lives but takes nothing for 15 s.
void EndIfNotRead(int fd);
// A peer that has acknowledged nothing of what was sent for 15 s, though it was asked again and
// again: it has gone, or cannot be reached.
bool PeerIsSilent(int fd);

}  // namespace paracord
