#include "net/frame_relay.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "common/log.h"
#include "common/steady_ms.h"

namespace paracord {
namespace {

constexpr size_t kScratchBytes = 256 << 10;
constexpr int kRelayTickMs = 100;
constexpr int64_t kNotReadMs = 100;  // by a client, until nothing more is taken of it
constexpr int64_t kLastMs = 300;     // for what is on its way at the end
constexpr int kEventsAtOnce = 64;

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

FrameRelay::FrameRelay()
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      scratch_(kScratchBytes) {
  epoll_event wake{};
  wake.events = EPOLLIN;
  wake.data.ptr = nullptr;
  (void)epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &wake);
  thread_ = std::thread([this] { Run(); });
}

FrameRelay::~FrameRelay() {
  stop_ = true;
  const uint64_t once = 1;
  (void)!write(wake_fd_, &once, sizeof(once));
  thread_.join();
  for (auto& [key, connection] : connections_) End(*connection);
  {
    MutexLock lock(mu_);
    for (const auto& connection : new_) End(*connection);
  }
  if (epoll_fd_ >= 0) close(epoll_fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

int FrameRelay::Add(int client) {
  std::array<int, 2> pair{};
  if (epoll_fd_ < 0 || wake_fd_ < 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    close(client);
    return -1;
  }
  auto connection = std::make_unique<Connection>();
  connection->client = client;
  connection->server = pair[0];
  {
    MutexLock lock(mu_);
    new_.push_back(std::move(connection));
  }
  const uint64_t once = 1;
  (void)!write(wake_fd_, &once, sizeof(once));
  return pair[1];
}

void FrameRelay::TakeNew() {
  uint64_t count = 0;
  (void)!read(wake_fd_, &count, sizeof(count));
  std::vector<std::unique_ptr<Connection>> taken;
  {
    MutexLock lock(mu_);
    taken.swap(new_);
  }
  for (std::unique_ptr<Connection>& connection : taken) {
    Connection* const key = connection.get();
    epoll_event event{};
    event.data.ptr = key;
    const bool added = epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, key->client, &event) == 0 &&
                       epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, key->server, &event) == 0;
    if (added && Pump(*key)) {
      connections_.emplace(key, std::move(connection));
    } else {
      End(*key);
    }
  }
}

void FrameRelay::Run() {
  int64_t end_ms = 0;
  int64_t looked_ms = SteadyMs();
  std::array<epoll_event, kEventsAtOnce> events;
  while (true) {
    if (stop_ && end_ms == 0) end_ms = SteadyMs() + kLastMs;
    if (end_ms != 0 && (connections_.empty() || SteadyMs() >= end_ms)) return;
    const int ready = epoll_wait(epoll_fd_, events.data(), kEventsAtOnce, kRelayTickMs);
    bool wake = false;
    for (int i = 0; i < ready; ++i) {
      auto* const key = static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      wake = wake || key == nullptr;
      const auto found = connections_.find(key);  // both its sockets may be ready
      if (found == connections_.end() || Pump(*found->second)) continue;
      End(*found->second);
      connections_.erase(found);
    }
    if (wake) TakeNew();
    if (SteadyMs() - looked_ms < kRelayTickMs) continue;
    looked_ms = SteadyMs();
    for (auto& [key, connection] : connections_) SetInterest(*connection);
  }
}

// Returns false when the connection is over.
bool FrameRelay::Pump(Connection& connection) {
  // Answers go first, because the client may have nothing more to say before it reads.
  if (!Move(connection.server, connection.client, connection.down, nullptr)) return false;
  if (connection.down.ended && connection.down.pending.empty()) return false;
  if (!PumpUp(connection)) return false;
  SetInterest(connection);
  return true;
}

bool FrameRelay::PumpUp(Connection& connection) {
  const Way& down = connection.down;
  if (!down.pending.empty() && SteadyMs() - down.pending_since_ms >= kNotReadMs) return true;
  const bool ended = connection.up.ended;
  if (!Move(connection.client, connection.server, connection.up, &connection.blocks)) return false;
  if (!ended && connection.up.ended) shutdown(connection.server, SHUT_WR);
  return true;
}

bool FrameRelay::Move(int from, int to, Way& way, HeaderBlocks* blocks) {
  std::span<const char> left(way.pending);
  if (way.pending.empty()) {
    if (way.ended) return true;
    const ssize_t got = recv(from, scratch_.data(), scratch_.size(), 0);
    if (got < 0) return WouldBlock();
    way.ended = got == 0;
    left = std::span<const char>(scratch_).first(static_cast<size_t>(got));
    if (blocks != nullptr && !blocks->Take(left)) {
      static OncePerSecond say;
      if (say.Now()) Logger("listener").Warn("cuts a connection whose header block does not end");
      return false;
    }
  }
  size_t sent = 0;
  while (sent < left.size()) {
    const ssize_t put = send(to, left.data() + sent, left.size() - sent, MSG_NOSIGNAL);
    if (put < 0 && !WouldBlock()) return false;
    if (put < 0) break;
    sent += static_cast<size_t>(put);
  }
  if (sent > 0 || way.pending.empty()) way.pending_since_ms = SteadyMs();
  if (way.pending.empty()) {
    way.pending.assign(left.data() + sent, left.size() - sent);
  } else {
    way.pending.erase(0, sent);
    if (way.pending.empty()) way.pending.shrink_to_fit();
  }
  return true;
}

void FrameRelay::SetInterest(Connection& connection) const {
  const bool not_read = !connection.down.pending.empty() &&
                        SteadyMs() - connection.down.pending_since_ms >= kNotReadMs;
  const auto set = [&](int fd, bool in, bool out) {
    epoll_event event{};
    event.events = (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u);
    event.data.ptr = &connection;
    (void)epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
  };
  const Way &up = connection.up, &down = connection.down;
  set(connection.client, up.pending.empty() && !up.ended && !not_read, !down.pending.empty());
  set(connection.server, down.pending.empty() && !down.ended, !up.pending.empty());
}

void FrameRelay::End(Connection& connection) {
  close(connection.client);
  close(connection.server);
}

}  // namespace paracord
