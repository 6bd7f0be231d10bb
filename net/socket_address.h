// Sockets for addresses as clusters write them: "host:port", "[v6]:port" or "unix:/path"; and
// "unix:@name", an abstract name, for sockets of our own that no cluster names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/name_lookup.h"

namespace paracord {

// A peer that says nothing for so long, though it should, counts as gone.
inline constexpr int kSilentMs = 15000;

struct ListeningSockets {
  std::vector<int> fds;     // non-blocking; one for each address of the host's name
  std::string address;      // with the actual port if 0 was asked for
  std::string own_address;  // of one of the sockets, without a name
  std::string socket_path;  // set for a unix socket
  uint64_t socket_inode = 0;
};
// Listens at an address. ALREADY_EXISTS if somebody else does; NOT_FOUND if its name does not
// resolve, or resolves to another machine; INVALID_ARGUMENT names what else is wrong with it.
absl::StatusOr<ListeningSockets> ListenAt(const std::string& address);

// True if one of the sockets is not a unix socket or of a loopback address.
bool ReachesOut(const ListeningSockets& sockets);

// Removes the file of a unix socket, unless it belongs to another listener by now. Called at the
// end.
void RemoveSocket(const ListeningSockets& sockets);

// Connects and returns a non-blocking socket. UNAVAILABLE if that fails, or takes longer than
// `patience_ms`, which the lookup and all addresses of the name share.
absl::StatusOr<int> ConnectSocket(NameLookup& peer, int64_t patience_ms);

// Sets TCP_NODELAY, and keep-alive probes that end the connection when an idle peer is gone. It has
// no effect on other sockets.
void SetStreamOptions(int fd);
// Makes the kernel end the connection if the peer lives but reads nothing for kSilentMs.
void EndIfNotRead(int fd);

// The peer's address, for logs: "10.0.0.7:41234"; "unix" for a unix socket.
std::string PeerOf(int fd);

}  // namespace paracord
