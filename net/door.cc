#include "net/door.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "common/log.h"
#include "common/steady_ms.h"

namespace paracord {
namespace {

constexpr int64_t kSpeakMs = 5000;  // after which a silent connection is not worth keeping
constexpr size_t kSilentMax = 1024;
constexpr int kReapMs = 1000;
constexpr int kReserved = 16;   // descriptors for files: checkpoints matter more than strangers
constexpr int kNoRoomMs = 100;  // after which descriptors are asked for again
constexpr int64_t kSayFullMs = 10000;  // between two lines of the log
constexpr char kTlsHandshake = 22;     // the first byte of a TLS connection

int DescriptorsMax() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return INT_MAX;
  return static_cast<int>(std::min<rlim_t>(files.rlim_cur, INT_MAX));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Door>> Door::Listen(const std::string& address) {
  absl::StatusOr<ListeningSockets> sockets = ListenAt(address);
  if (!sockets.ok()) return sockets.status();
  std::unique_ptr<Door> door(new Door(*std::move(sockets)));
  if (door->stop_fd_ < 0) return absl::ResourceExhaustedError("no descriptor is left");
  return door;
}

Door::Door(ListeningSockets sockets)
    : sockets_(std::move(sockets)),
      stop_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      descriptors_(DescriptorsMax()) {}

Door::~Door() {
  if (thread_.joinable()) {
    const uint64_t once = 1;
    (void)!write(stop_fd_, &once, sizeof(once));
    thread_.join();
  }
  for (const Silent& silent : silent_) close(silent.fd);
  for (const int fd : sockets_.fds) close(fd);
  if (stop_fd_ >= 0) close(stop_fd_);
  RemoveSocket(sockets_);
}

void Door::Open(StreamConnection::Serving streams, std::function<void(int fd)> others,
                std::shared_ptr<Credentials> credentials) {
  streams_ = std::move(streams);
  others_ = std::move(others);
  credentials_ = std::move(credentials);
  thread_ = std::thread([this] { Run(); });
}

void Door::Run() {
  bool room = true;
  while (true) {
    std::vector<pollfd> wanted = {{stop_fd_, POLLIN, 0}};
    for (const int fd : sockets_.fds) wanted.push_back({room ? fd : -1, POLLIN, 0});
    const size_t first = wanted.size();
    for (const Silent& silent : silent_) wanted.push_back({silent.fd, POLLIN, 0});
    poll(wanted.data(), wanted.size(), room ? kReapMs : kNoRoomMs);
    if (wanted[0].revents != 0) return;
    served_.Reap();
    std::vector<Silent> still;
    for (size_t i = 0; i < silent_.size(); ++i) {
      if (!Sort(silent_[i], wanted[first + i].revents != 0)) still.push_back(silent_[i]);
    }
    silent_ = std::move(still);
    room = true;
    for (const int fd : sockets_.fds) room = Accept(fd) && room;
  }
}

void Door::SayFull(const std::string& why) {
  const int64_t now_ms = SteadyMs();
  if (said_full_ms_.has_value() && now_ms - *said_full_ms_ < kSayFullMs) return;
  said_full_ms_ = now_ms;
  Logger("listener")
      .Warn(
          "{}: new connections wait, {}; this process may have {} descriptors (ulimit -n), {} of "
          "them "
          "for files",
          address(), why, descriptors_, kReserved);
}

// Returns false if there are no descriptors left for a connection.
bool Door::Accept(int listener) {
  while (true) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= descriptors_ - kReserved) {
      close(fd);
      SayFull("all descriptors are in use");
      return false;
    }
    if (fd >= 0) {
      SetStreamOptions(fd);
      const Silent silent{fd, SteadyMs()};
      if (Sort(silent, true)) continue;
      if (silent_.size() >= kSilentMax) {
        close(silent_.front().fd);
        silent_.erase(silent_.begin());
      }
      silent_.push_back(silent);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      SayFull(std::strerror(errno));
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }  // else of that connection alone
  }
}

// Hands the connection to who serves it, by its first byte, or closes it. Returns false while it is
// silent.
bool Door::Sort(const Silent& silent, bool readable) {
  char first = 0;
  const ssize_t got = readable ? recv(silent.fd, &first, 1, MSG_PEEK) : -1;
  if (got < 0 && (!readable || errno == EAGAIN || errno == EINTR)) {
    if (SteadyMs() - silent.since_ms < kSpeakMs) return false;
    close(silent.fd);
  } else if (got <= 0) {
    close(silent.fd);
  } else if (credentials_ != nullptr && first != kTlsHandshake) {
    static OncePerSecond say;
    if (say.Now()) Logger("listener").Warn("refuses {}, which speaks no TLS", PeerOf(silent.fd));
    close(silent.fd);
  } else if (credentials_ == nullptr && first == kStreamGreeting[0]) {
    ServeStream(silent.fd);
  } else {
    others_(silent.fd);
  }
  return true;
}

void Door::ServeStream(int fd) {
  EndIfNotRead(fd);  // it would keep what it is sent
  const auto connection = std::make_shared<StreamConnection>(fd, streams_, "stream");
  served_.Add(
      [connection, fd] {
        if (GreetStream(fd, kSpeakMs)) connection->Run();
      },
      [connection] { connection->Close(); });
}

}  // namespace paracord
