// Sockets for addresses as clusters have them: "host:port", "[v6]:port" or "unix:/path".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/name_lookup.h"

namespace paracord {

// A peer of whom nothing is heard for so long, though it should say something, counts as gone.
inline constexpr int kSilentMs = 15000;

struct ListeningSockets {
  std::vector<int> fds;     // not blocking; one for each address that a host's name has
  std::string address;      // with the port that was chosen when 0 was asked for
  std::string own_address;  // of one of them, with no name in it
  std::string socket_path;  // of a unix socket
  uint64_t socket_inode = 0;
};
// ALREADY_EXISTS when somebody listens there; NOT_FOUND when its name does not resolve, or to an
// address of another machine; INVALID_ARGUMENT names what else is wrong with it.
absl::StatusOr<ListeningSockets> ListenAt(const std::string& address);

// In the end: the file of a unix socket, unless it is another's by now.
void RemoveSocket(const ListeningSockets& sockets);

// Connected, not blocking. UNAVAILABLE, also when `patience_ms` are over, which its name and all of
// its addresses share.
absl::StatusOr<int> ConnectSocket(NameLookup& peer, int64_t patience_ms);

// What a TCP connection of ours wants: no delay, and an end when an idle peer has gone. These do
// nothing to other sockets.
void SetStreamOptions(int fd);
// Ends the connection also when its peer lives but takes nothing for so long.
void EndIfNotRead(int fd);

// Who is at the other end, for logs: "10.0.0.7:41234"; of a unix socket "unix".
std::string PeerOf(int fd);

}  // namespace paracord
