#include "net/socket_address.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"

namespace paracord {
namespace {

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

bool IsUnix(const std::string& address) { return address.starts_with("unix:"); }

// Fills in a unix socket's path, or the abstract name behind a leading "@". False if too long.
bool FillPath(const std::string& address, sockaddr_un& to) {
  const std::string path = address.substr(5);
  if (path.size() >= sizeof(to.sun_path)) return false;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.data(), path.size());
  if (path.starts_with('@')) to.sun_path[0] = '\0';
  return true;
}

void SetOption(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof(value));
}

// ---- listening

absl::Status CannotListen(const std::string& address, int error) {
  const std::string text =
      absl::StrCat("cannot listen at ", address, ": ", std::string(std::strerror(error)));
  if (error == EADDRINUSE) return absl::AlreadyExistsError(text);
  return absl::InvalidArgumentError(
      error == EADDRNOTAVAIL ? text + " (no network interface of this machine has it)" : text);
}

bool SomebodyListens(const sockaddr_un& at) {
  const int fd = ::socket(AF_UNIX, kSocketFlags, 0);
  if (fd < 0) return false;
  const bool live = ::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0 ||
                    errno == EAGAIN;  // the listener's backlog is full
  ::close(fd);
  return live;
}

// Returns a unix socket listening at `at`; errors name `address`.
absl::StatusOr<int> ListenAtUnix(const std::string& address, const sockaddr_un& at) {
  const int fd = ::socket(AF_UNIX, kSocketFlags, 0);
  if (fd < 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 ||
      ::listen(fd, SOMAXCONN) != 0) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return CannotListen(address, error);
  }
  return fd;
}

absl::StatusOr<ListeningSockets> ListenAtPath(const std::string& address) {
  sockaddr_un at{};
  if (!FillPath(address, at)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path is too long (107 bytes at most): ", address));
  }
  if (at.sun_path[0] == '\0') {  // an abstract name leaves no file behind
    ASSIGN_OR_RETURN(const int fd, ListenAtUnix(address, at));
    return ListeningSockets{{fd}, address, address, address.substr(5), 0};
  }
  if (SomebodyListens(at)) {
    return absl::AlreadyExistsError(absl::StrCat("somebody listens at ", address));
  }
  const std::string directory = std::filesystem::path(at.sun_path).parent_path().string();
  if (::access((directory + "/.").c_str(), W_OK | X_OK) != 0) {
    const int error = errno;
    return absl::InvalidArgumentError(absl::StrCat("cannot listen at ", address, ": directory ",
                                                   directory, ": ",
                                                   std::string(std::strerror(error))));
  }
  struct stat there {};
  if (::lstat(at.sun_path, &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot listen at ", address, ": there is something that is no socket"));
    }
    ::unlink(at.sun_path);  // the stale file of a dead listener
  }
  ASSIGN_OR_RETURN(const int fd, ListenAtUnix(address, at));
  ListeningSockets sockets{{fd}, address, address, at.sun_path, 0};
  if (::lstat(at.sun_path, &there) == 0) sockets.socket_inode = there.st_ino;
  return sockets;
}

// The text of an address: "10.0.0.7:41234" or "[fd00::7]:41234".
std::string TextOf(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  constexpr int kNumbers = NI_NUMERICHOST | NI_NUMERICSERV;
  if (getnameinfo(address, size, host, sizeof(host), port, sizeof(port), kNumbers) != 0) return "?";
  const bool v6 = address->sa_family == AF_INET6;
  return v6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

uint16_t& PortOf(sockaddr* address) {
  return address->sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(address)->sin_port;
}

// Listens at a socket address. A port of 0 is replaced by `port` (in network order) if set;
// otherwise `port` receives the port chosen by the system. Returns the socket, or the negative
// error.
int ListenAtOne(SocketAddress at, uint16_t& port) {
  const int fd = ::socket(at.at.ss_family, kSocketFlags, 0);
  if (fd < 0) return -errno;
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  const bool v6 = at.at.ss_family == AF_INET6;
  const bool any =
      v6 && IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<sockaddr_in6*>(at.get())->sin6_addr);
  if (v6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, any ? 0 : 1);
  if (PortOf(at.get()) == 0) PortOf(at.get()) = port;
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (::bind(fd, at.get(), at.size) != 0 || ::listen(fd, SOMAXCONN) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    const int error = errno;
    ::close(fd);
    return -error;
  }
  port = PortOf(reinterpret_cast<sockaddr*>(&bound));
  return fd;
}

absl::StatusOr<ListeningSockets> ListenAtHost(const std::string& address) {
  const absl::StatusOr<std::vector<SocketAddress>> found = ResolveAddress(address, AI_PASSIVE);
  if (!found.ok()) {
    return absl::NotFoundError(
        absl::StrCat("cannot listen at ", address, ": ", found.status().message()));
  }
  ListeningSockets sockets;
  uint16_t port = 0;
  int error = EADDRNOTAVAIL;
  for (const SocketAddress& one : *found) {
    const int fd = ListenAtOne(one, port);
    if (fd >= 0) {
      sockets.fds.push_back(fd);
    } else {
      error = -fd;  // perhaps an address family that this machine lacks
    }
    if (fd == -EADDRINUSE) break;
  }
  if (sockets.fds.empty() || error == EADDRINUSE) {
    for (const int fd : sockets.fds) ::close(fd);
    const absl::Status status = CannotListen(address, error);
    const bool of_another = error == EADDRNOTAVAIL && HasName(address);
    return of_another ? absl::NotFoundError(status.message()) : status;
  }
  sockets.address = absl::StrCat(address.substr(0, address.rfind(':')), ":", ntohs(port));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  ::getsockname(sockets.fds[0], reinterpret_cast<sockaddr*>(&own), &size);
  sockets.own_address = TextOf(reinterpret_cast<const sockaddr*>(&own), size);
  return sockets;
}

// ---- connecting

// Returns the connected socket, or the negative error.
int ConnectOne(const sockaddr* at, socklen_t size, int64_t patience_ms) {
  const int fd = ::socket(at->sa_family, kSocketFlags, 0);
  if (fd < 0) return -errno;
  SetStreamOptions(fd);
  int error = ::connect(fd, at, size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd ready{fd, POLLOUT, 0};
    socklen_t error_size = sizeof(error);
    if (::poll(&ready, 1, static_cast<int>(patience_ms)) <= 0) {
      error = ETIMEDOUT;
    } else if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) != 0) {
      error = errno;
    }
  }
  if (error == 0) return fd;
  ::close(fd);
  return -error;
}

}  // namespace

absl::StatusOr<ListeningSockets> ListenAt(const std::string& address) {
  return IsUnix(address) ? ListenAtPath(address) : ListenAtHost(address);
}

bool ReachesOut(const ListeningSockets& sockets) {
  return std::any_of(sockets.fds.begin(), sockets.fds.end(), [](int fd) {
    sockaddr_storage at{};
    socklen_t size = sizeof(at);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) return true;
    if (at.ss_family == AF_UNIX) return false;
    if (at.ss_family == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(at);
      return ntohl(v4.sin_addr.s_addr) >> 24 != 127;
    }
    return !IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(at).sin6_addr);
  });
}

void RemoveSocket(const ListeningSockets& sockets) {
  struct stat there {};
  const char* const path = sockets.socket_path.c_str();
  if (sockets.socket_path.empty() || ::lstat(path, &there) != 0) return;
  if (there.st_ino == sockets.socket_inode) ::unlink(path);
}

void SetStreamOptions(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

void EndIfNotRead(int fd) { SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentMs); }

std::string PeerOf(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  if (getpeername(fd, address, &size) != 0 || at.ss_family == AF_UNIX) return "unix";
  return TextOf(address, size);
}

absl::StatusOr<int> ConnectSocket(NameLookup& peer, int64_t patience_ms) {
  const std::string& address = peer.address();
  int fd = -EINVAL;
  if (IsUnix(address)) {
    sockaddr_un at{};
    if (FillPath(address, at)) {
      fd = ConnectOne(reinterpret_cast<const sockaddr*>(&at), sizeof(at), patience_ms);
    }
  } else {
    const int64_t end_ms = SteadyMs() + patience_ms;
    const absl::StatusOr<std::vector<SocketAddress>> found = peer.Find(patience_ms);
    if (!found.ok()) return found.status();
    // A silent address must leave time for the addresses behind it.
    for (size_t i = 0; i < found->size() && fd < 0; ++i) {
      const int64_t left_ms = end_ms - SteadyMs();
      const int64_t share_ms = left_ms / static_cast<int64_t>(found->size() - i);
      fd = ConnectOne((*found)[i].get(), (*found)[i].size, std::max<int64_t>(share_ms, 1));
    }
  }
  if (fd >= 0) return fd;
  return absl::UnavailableError(absl::StrCat(address, ": ", std::string(std::strerror(-fd))));
}

}  // namespace paracord
