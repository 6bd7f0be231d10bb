#include "net/frame_relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/descriptors.h"
#include "common/log.h"
#include "common/random.h"
#include "common/steady_ms.h"
#include "net/socket_address.h"

namespace paracord {
namespace {

constexpr size_t kScratchBytes = 256 << 10;
constexpr size_t kLittleBytes = 16 << 10;  // taken at a time while the request budget has no room
constexpr int kRelayTickMs = 100;
// How long a client may leave its answers unread before we stop reading from the client.
constexpr int64_t kNotReadMs = 100;
constexpr int64_t kLastMs = 300;        // how long a closing relay flushes pending bytes
constexpr int64_t kHandshakeMs = 5000;  // until the token is shown, where one is needed
constexpr int kEventsAtOnce = 64;

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Gives a socket an abstract name, by which gRPC sees the connection.
bool Bind(int fd, const std::string& name) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, name.data(), std::min(name.size(), sizeof(at.sun_path) - 1));
  const size_t size = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return bind(fd, reinterpret_cast<const sockaddr*>(&at), static_cast<socklen_t>(size)) == 0;
}

// Forwards bytes in a single direction: first the pending bytes of `direction`, then the bytes from
// `receive`, through `send`. Returns false when the connection is over.
template <class Direction, class ReceiveFn, class MayFn, class SendFn>
bool Move(Direction& direction, std::span<char> scratch, ReceiveFn receive, MayFn may,
          SendFn send) {
  std::span<const char> left(direction.pending);
  if (direction.pending.empty()) {
    if (direction.ended) return true;
    const ssize_t got = receive(scratch.data(), scratch.size());
    if (got < 0) return WouldBlock();
    direction.ended = got == 0;
    left = scratch.first(static_cast<size_t>(got));
    if (!may(left)) return false;
  }
  size_t sent = 0;
  while (sent < left.size()) {
    const ssize_t put = send(left.data() + sent, left.size() - sent);
    if (put < 0 && !WouldBlock()) return false;
    if (put < 0) break;
    sent += static_cast<size_t>(put);
  }
  if (sent > 0 || direction.pending.empty()) direction.pending_since_ms = SteadyMs();
  if (direction.pending.empty()) {
    direction.pending.assign(left.data() + sent, left.size() - sent);
  } else {
    direction.pending.erase(0, sent);
    if (direction.pending.empty()) direction.pending.shrink_to_fit();
  }
  return true;
}

}  // namespace

FrameRelay::FrameRelay(FrameRelayOptions options)
    : options_(std::move(options)),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      name_("paracord-" + SystemRandom().NextId()),
      scratch_(kScratchBytes) {
  epoll_event wake{};
  wake.events = EPOLLIN;
  wake.data.u64 = 0;
  (void)epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wakes_->fd(), &wake);
  thread_ = std::thread([this] { Run(); });
}

FrameRelay::~FrameRelay() {
  stop_ = true;
  wakes_->Wake();
  thread_.join();
  for (auto& [id, connection] : connections_) End(*connection);
  {
    MutexLock lock(mu_);
    for (const auto& connection : new_) End(*connection);
  }
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

void FrameRelay::Add(int client, std::function<void(int fd)> deliver) {
  auto connection = std::make_unique<Connection>();
  connection->since_ms = SteadyMs();
  connection->id = ++last_;
  const auto wake = [wakes = wakes_, id = connection->id](bool ends) {
    return [=] { wakes->Add({id, ends}); };
  };
  connection->requests = std::make_unique<ArrivingRequests>(
      options_.request_budget, options_.patience_ms, wake(/*ends=*/false), wake(/*ends=*/true));
  int delivered = -1;
  if (options_.credentials == nullptr) {
    connection->client = MakePlainChannel(client);
    delivered = Pair(*connection, {});
    if (delivered < 0) return End(*connection);
  } else {
    const std::shared_ptr<const Credentials::Keys> keys = options_.credentials->Current();
    auto tls = TlsChannel::Make(client, keys->server.get(), TlsChannel::End::kServer);
    if (!tls.ok()) return;  // Make has closed the socket
    connection->tls = tls->get();
    connection->client = *std::move(tls);
    connection->deliver = deliver;
    ++shaking_;
  }
  {
    MutexLock lock(mu_);
    new_.push_back(std::move(connection));
  }
  wakes_->Wake();
  if (delivered >= 0) deliver(delivered);
}

// Makes the socket pair between relay and gRPC, and returns gRPC's end, or -1.
int FrameRelay::Pair(Connection& connection, RelayedPeer peer) {
  std::array<int, 2> pair{};
  if (epoll_fd_ < 0 || wakes_->fd() < 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return -1;
  }
  connection.server = pair[0];
  if (std::max(pair[0], pair[1]) >= descriptors_ - kFileDescriptors) {
    close(pair[1]);
    return -1;
  }
  connection.name = absl::StrCat(name_, "-", connection.id);
  if (!Bind(pair[0], connection.name)) {
    close(pair[1]);
    return -1;
  }
  peers_->Add(connection.name, std::move(peer));
  return pair[1];
}

bool FrameRelay::Watch(const Connection& connection, int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = connection.id;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void FrameRelay::TakeWoken() {
  for (const WakeList::Woken& woken : wakes_->Take()) {
    const auto found = connections_.find(woken.connection);
    if (found == connections_.end()) continue;
    Connection& connection = *found->second;
    // The room may be taken again already.
    connection.full = !woken.ends && !connection.requests->Count();
    if (woken.ends) {
      static OncePerSecond say;
      if (say.Now()) {
        Logger("listener")
            .Warn(
                "cuts {}: its requests hardly move while others wait, or take more memory than "
                "there is for all",
                PeerOf(connection.client->fd()));
      }
    } else if (Serve(connection)) {
      continue;
    }
    End(connection);
    connections_.erase(found);
  }
}

void FrameRelay::TakeNew() {
  std::vector<std::unique_ptr<Connection>> taken;
  {
    MutexLock lock(mu_);
    taken.swap(new_);
  }
  for (std::unique_ptr<Connection>& connection : taken) {
    if (shaking_ > options_.handshakes_max) {
      EndOldest([](const Connection& each) { return each.server < 0; });
    }
    const bool watched = Watch(*connection, connection->client->fd()) &&
                         (connection->server < 0 || Watch(*connection, connection->server));
    if (watched && Serve(*connection)) {
      const uint64_t id = connection->id;
      connections_.emplace(id, std::move(connection));
    } else {
      End(*connection);
    }
  }
}

// An honest client introduces itself within milliseconds; the oldest stranger is the most suspect.
template <class IsFn>
void FrameRelay::EndOldest(IsFn is) {
  const auto since_ms = [&](const auto& each) {
    return is(*each.second) ? each.second->since_ms : INT64_MAX;
  };
  const auto oldest = std::ranges::min_element(connections_, {}, since_ms);
  if (oldest == connections_.end() || !is(*oldest->second)) return;
  End(*oldest->second);
  connections_.erase(oldest);
}

// Sees whether gRPC has been shown the token meanwhile.
void FrameRelay::LookAtUnauthenticated(Connection& connection) {
  if (!connection.unauthenticated) return;
  const std::optional<RelayedPeer> peer = peers_->Find(connection.name);
  if (!peer.has_value() || !peer->is_known) return;
  connection.unauthenticated = false;
  --unauthenticated_;
}

// Returns false when the connection is over.
bool FrameRelay::Serve(Connection& connection) {
  return connection.server < 0 ? Shake(connection) : Pump(connection);
}

bool FrameRelay::Shake(Connection& connection) {
  const int fd = connection.client->fd();
  const absl::StatusOr<TlsChannel::Step> step = connection.tls->Handshake();
  if (step.ok() && *step != TlsChannel::Step::kDone) {
    epoll_event event{};
    event.events = *step == TlsChannel::Step::kWrites ? EPOLLOUT : EPOLLIN;
    event.data.u64 = connection.id;
    (void)epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
    return true;
  }
  absl::StatusOr<RelayedPeer> peer = step.ok() ? PeerBehind(*connection.tls, *options_.credentials)
                                               : absl::StatusOr<RelayedPeer>(step.status());
  if (!peer.ok()) {
    options_.refused->Note({.cause = RefusedPeers::Cause::kTls,
                            .address = PeerOf(fd),
                            .why = std::string(peer.status().message())});
    return false;
  }
  const std::string name = peer->certificate.Name();
  if (offenders_.Refused(name, SteadyMs())) {
    options_.refused->Note({.cause = RefusedPeers::Cause::kResets,
                            .address = PeerOf(fd),
                            .certificate = name,
                            .why = "for a while, since it has begun or reset too many requests"});
    return false;
  }
  const bool unauthenticated = peer->needs_token;
  connection.certificate = peer->certificate;
  connection.certificate_name = name;
  const std::optional<PeerIdentity>& identity = peer->access.peer();
  connection.only_looks = identity.has_value() && (identity->role == PeerRole::kMonitor ||
                                                   identity->role == PeerRole::kOperator);
  peer->address = PeerOf(fd);
  const int delivered = Pair(connection, *std::move(peer));
  if (delivered < 0) return false;
  --shaking_;
  if (unauthenticated) {
    connection.unauthenticated = true;
    ++unauthenticated_;
  }
  std::exchange(connection.deliver, nullptr)(delivered);
  return Watch(connection, connection.server) && Pump(connection);
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
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      wake = wake || id == 0;
      const auto found = connections_.find(id);  // an earlier event may have removed the connection
      if (found == connections_.end()) continue;
      // After an error nothing comes any more, also where nothing is read now.
      const bool broken = (events[static_cast<size_t>(i)].events & EPOLLERR) != 0;
      if (Serve(*found->second) && !broken) continue;
      End(*found->second);
      connections_.erase(found);
    }
    if (wake) {
      TakeWoken();
      TakeNew();
    }
    if (unauthenticated_ > options_.unauthenticated_max) {
      for (auto& [id, each] : connections_) LookAtUnauthenticated(*each);
    }
    while (unauthenticated_ > options_.unauthenticated_max) {
      EndOldest([](const Connection& each) { return each.unauthenticated; });
    }
    if (SteadyMs() - looked_ms < kRelayTickMs) continue;
    looked_ms = SteadyMs();
    options_.request_budget->Look();
    std::erase_if(connections_, [this](const auto& each) {
      const bool goes_on = Tick(*each.second);
      if (!goes_on) End(*each.second);
      return !goes_on;
    });
  }
}

// Returns false when the connection is over.
bool FrameRelay::Tick(Connection& connection) {
  LookAtUnauthenticated(connection);
  const bool known = connection.server >= 0 && !connection.unauthenticated;
  if (!known && SteadyMs() - connection.since_ms >= kHandshakeMs) return false;
  if (connection.server < 0) return true;
  if (options_.credentials != nullptr) {  // a certificate may expire or be revoked meanwhile
    const std::string problem = options_.credentials->ProblemOf(connection.certificate);
    if (!problem.empty()) {
      Logger("listener")
          .Warn(
              "ends the connection of {address}, since its certificate is believed no more: "
              "{reason}",
              "peer"_a = connection.certificate_name, "address"_a = PeerOf(connection.client->fd()),
              "reason"_a = problem);
      return false;
    }
  }
  // Bytes buffered inside the channel do not make the socket readable; Pump takes them.
  if (known && std::exchange(connection.unauthenticated_bytes, 0) == kUnauthenticatedBytesMax) {
    return Pump(connection);
  }
  SetInterest(connection);
  return true;
}

// Returns false when the connection is over.
bool FrameRelay::Pump(Connection& connection) {
  // Answers go first: the client may wait for them before sending more.
  if (!MoveDown(connection)) return false;
  if (connection.down.ended && connection.down.pending.empty()) return false;
  if (!PumpUp(connection)) return false;
  SetInterest(connection);
  return true;
}

bool FrameRelay::PumpUp(Connection& connection) {
  const Direction& down = connection.down;
  if (!down.pending.empty() && SteadyMs() - down.pending_since_ms >= kNotReadMs) return true;
  if (connection.full && connection.up.pending.empty()) return true;
  const bool ended = connection.up.ended;
  do {  // runs at most twice
    if (!MoveUp(connection)) return false;
  } while (connection.kept && connection.up.pending.empty() && !connection.full);
  if (!ended && connection.up.ended) {
    peers_->SetEnded(connection.name);  // set before gRPC sees the end
    shutdown(connection.server, SHUT_WR);
  }
  return true;
}

// Examines bytes of the client before they reach gRPC. Returns false if the client must be cut.
bool FrameRelay::MayPass(Connection& connection, std::span<const char> bytes) {
  HeaderBlocks& blocks = connection.blocks;
  ArrivingRequests& requests = *connection.requests;
  const uint64_t before = blocks.asking_frames();
  const uint64_t resets_before = requests.resets(), begun_before = requests.begun();
  const bool ends = blocks.Take(bytes, [&](const Http2Frame& frame, uint64_t count, bool last) {
    requests.Passed(frame, count, last);
  });
  const std::string& name = connection.certificate_name;
  const uint64_t resets = requests.resets() - resets_before;
  const uint64_t looks = connection.only_looks ? requests.begun() - begun_before : 0;
  const int64_t now_ms = SteadyMs();
  const char* wrong = nullptr;
  RefusedPeers::Cause cause = RefusedPeers::Cause::kFrames;
  if (!ends) {
    wrong = "its header block does not end";
  } else if (!connection.asks.Allow(blocks.asking_frames() - before, now_ms)) {
    wrong = "it sends too many PING or SETTINGS frames";
  } else if (!connection.resets.Allow(resets, now_ms) ||
             !offenders_.Allow(name, resets, looks, now_ms)) {
    wrong = "it begins or resets too many requests";
    cause = RefusedPeers::Cause::kResets;
    offenders_.Cut(name, now_ms);
  } else if (requests.TooMany()) {
    wrong = "it begins more requests than it may have at once";
  } else {
    connection.full = !requests.Count();
    return true;
  }
  options_.refused->Note({cause, "cuts", PeerOf(connection.client->fd()), name, wrong});
  return false;
}

ssize_t FrameRelay::ReceiveUp(Connection& connection, std::span<char> to) {
  size_t count = to.size();
  if (options_.request_budget->full() && !connection.kept) count = std::min(count, kLittleBytes);
  if (connection.unauthenticated)
    count = std::min(count, kUnauthenticatedBytesMax - connection.unauthenticated_bytes);
  connection.kept = false;
  if (count == 0) {
    errno = EAGAIN;
    return -1;
  }
  iovec room{to.data(), count};
  const ssize_t got = connection.client->Receive({&room, 1});
  if (got <= 0) return got;
  connection.kept =
      connection.tls != nullptr && count < to.size() && static_cast<size_t>(got) == count;
  if (connection.unauthenticated) connection.unauthenticated_bytes += static_cast<size_t>(got);
  return got;
}

bool FrameRelay::MoveUp(Connection& connection) {
  LookAtUnauthenticated(connection);
  return Move(
      connection.up, scratch_,
      [&](char* bytes, size_t count) {
        return ReceiveUp(connection, {bytes, count});
      },
      [&](std::span<const char> bytes) { return MayPass(connection, bytes); },
      [&](const char* bytes, size_t count) {
        return send(connection.server, bytes, count, MSG_NOSIGNAL);
      });
}

bool FrameRelay::MoveDown(Connection& connection) {
  return Move(
      connection.down, scratch_,
      [&](char* bytes, size_t count) { return recv(connection.server, bytes, count, 0); },
      [&](std::span<const char> bytes) {
        ArrivingRequests& requests = *connection.requests;
        connection.answers.Take(bytes, [&](const Http2Frame& frame, uint64_t, bool last) {
          requests.Answered(frame, last);
        });
        connection.full = !requests.Count();
        return true;
      },
      [&](const char* bytes, size_t count) {
        iovec piece{const_cast<char*>(bytes), count};
        return connection.client->Send({&piece, 1});
      });
}

void FrameRelay::SetInterest(Connection& connection) const {
  const bool not_read = !connection.down.pending.empty() &&
                        SteadyMs() - connection.down.pending_since_ms >= kNotReadMs;
  const auto set = [&](int fd, bool in, bool out) {
    epoll_event event{};
    event.events = (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u);
    event.data.u64 = connection.id;
    (void)epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
  };
  const Direction &up = connection.up, &down = connection.down;
  const bool waits =
      connection.full ||
      (connection.unauthenticated && connection.unauthenticated_bytes == kUnauthenticatedBytesMax);
  const bool reads = up.pending.empty() && !up.ended && !not_read && !waits;
  set(connection.client->fd(), reads, !down.pending.empty());
  set(connection.server, down.pending.empty() && !down.ended, !up.pending.empty());
}

void FrameRelay::End(Connection& connection) {
  if (!connection.name.empty()) peers_->Remove(connection.name);
  if (connection.deliver) --shaking_;
  if (connection.unauthenticated) --unauthenticated_;
  connection.client.reset();
  if (connection.server >= 0) close(connection.server);
}

}  // namespace paracord
