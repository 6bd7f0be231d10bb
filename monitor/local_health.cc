#include "monitor/local_health.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_ms.h"
#include "net/socket_address.h"

namespace paracord {
namespace {

constexpr int64_t kConnectMs = 1000;
constexpr size_t kAnswerMax = 16 << 10;

// An address with a host name gets "*" for the name: whatever its spelling, it is this host's.
std::string NameFor(const std::string& address) {
  const std::string port = address.substr(address.rfind(':') + 1);
  return absl::StrCat("unix:@paracord-health-", ::getuid(), "-",
                      HasName(address) ? absl::StrCat("*:", port) : address);
}

// Connects to this user's daemon at exactly `address`. Returns the socket, or -1.
int Connect(const std::string& address) {
  NameLookup name(NameFor(address));
  const absl::StatusOr<int> fd = ConnectSocket(name, kConnectMs);
  if (!fd.ok()) return -1;
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool ours =
      ::getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid();
  if (ours) return *fd;
  ::close(*fd);
  return -1;
}

// Sends a request and returns everything up to the end of the connection.
absl::StatusOr<std::string> Exchange(int fd, int64_t timeout_ms) {
  constexpr std::string_view kRequest =
      "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  const int64_t end_ms = SteadyMs() + timeout_ms;
  if (::send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(kRequest.size())) {
    return absl::UnavailableError("it takes no request");
  }
  std::string answer;
  while (answer.size() < kAnswerMax) {
    pollfd ready{fd, POLLIN, 0};
    const int64_t left_ms = end_ms - SteadyMs();
    if (left_ms <= 0 || ::poll(&ready, 1, static_cast<int>(left_ms)) == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat("its event loop has not answered for ", timeout_ms, " ms"));
    }
    char bytes[1024];
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) break;
    answer.append(bytes, static_cast<size_t>(got));
  }
  return answer;
}

absl::StatusOr<LocalHealth> Ask(int fd, int64_t timeout_ms) {
  absl::StatusOr<std::string> answer = Exchange(fd, timeout_ms);
  ::close(fd);
  if (!answer.ok()) return answer.status();
  const size_t head = answer->find("\r\n\r\n");
  if (!answer->starts_with("HTTP/1.1 ") || head == std::string::npos) {
    return absl::UnavailableError("its answer is none");
  }
  LocalHealth health{answer->substr(9, 3) == "200", answer->substr(head + 4)};
  health.text.erase(std::min(health.text.find('\n'), health.text.size()));
  return health;
}

}  // namespace

std::unique_ptr<Monitor> ServeLocalHealth(const std::string& address, EventLoop& loop,
                                          MonitorSource source) {
  if (address.empty() || address.starts_with("unix:")) return nullptr;
  absl::StatusOr<std::unique_ptr<Monitor>> monitor =
      Monitor::Start(NameFor(address), loop, std::move(source));
  return monitor.ok() ? *std::move(monitor) : nullptr;
}

std::optional<absl::StatusOr<LocalHealth>> AskLocalHealth(const std::string& address,
                                                          int64_t timeout_ms) {
  if (address.starts_with("unix:")) return std::nullopt;
  const std::string port = address.substr(address.rfind(':'));
  for (const std::string& each : {address, "0.0.0.0" + port, "[::]" + port, "localhost" + port}) {
    const int fd = Connect(each);
    if (fd >= 0) return Ask(fd, timeout_ms);
  }
  return std::nullopt;
}

}  // namespace paracord
