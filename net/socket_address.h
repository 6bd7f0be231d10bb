// Sockets for addresses as they are written in a cluster ("host:port", "[v6]:port" or
// "unix:/path"), and for "unix:@name", an abstract name, which only internal sockets have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/name_lookup.h"

namespace paracord {

// A peer that sends nothing for this long, though an answer is due, counts as gone.
inline constexpr int kSilentMs = 15000;

struct ListeningSockets {
  std::vector<int> fds;       // non-blocking; one for each usable address of the host's name
  std::string address;        // the argument of ListenAt, with the actual port instead of 0
  std::string own_address;    // TCP: numeric address of the first socket; else `address`
  std::string socket_path;    // path or "@name" of a unix socket; "" for TCP
  uint64_t socket_inode = 0;  // inode of the file at socket_path; 0 without a file
};
// Listens at an address. ALREADY_EXISTS if the address is in use; NOT_FOUND if the name does not
// resolve, or resolves to another machine; INVALID_ARGUMENT for any other problem.
absl::StatusOr<ListeningSockets> ListenAt(const std::string& address);

// True unless all sockets are unix sockets or at loopback addresses.
bool ReachesOut(const ListeningSockets& sockets);

// Removes the file of a unix socket, unless another listener owns the path by now.
void RemoveSocket(const ListeningSockets& sockets);

// Connects and returns a non-blocking socket. UNAVAILABLE on failure, or if the name lookup and the
// attempts at all addresses of the name together take longer than `patience_ms`.
absl::StatusOr<int> ConnectSocket(NameLookup& peer, int64_t patience_ms);

// Sets TCP_NODELAY, and keep-alive probes that end the connection when an idle peer is gone. Has no
// effect on unix sockets.
void SetStreamOptions(int fd);
// Makes the kernel end the connection if sent bytes stay unacknowledged, or find no room at a peer
// that reads nothing, for kSilentMs.
void EndIfNotRead(int fd);

// The peer's address, for logs, such as "10.0.0.7:41234". Returns "unix" for a unix socket, or if
// the socket is no longer connected.
std::string PeerOf(int fd);

}  // namespace paracord
