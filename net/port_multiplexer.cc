#include "net/port_multiplexer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/descriptors.h"
#include "common/log.h"
#include "common/steady_ms.h"
#include "net/client_hello.h"
#include "proto/protocol.h"

namespace paracord {
namespace {

// Time for a new connection to finish TLS handshake, token and greeting.
constexpr int64_t kSpeakMs = 5000;
constexpr size_t kUnauthenticatedMax = 1024;
constexpr int64_t kOfOneTaskMax = 64;   // streams of one certificate with an index
constexpr int64_t kOfOneRoleMax = 256;  // streams of all certificates without one
constexpr int kLookAgainMs = 20;        // a connection whose first bytes are incomplete
constexpr int kReapMs = 1000;
constexpr int kNoRoomMs = 100;         // retry of accept after descriptors ran out
constexpr int64_t kSayFullMs = 10000;  // between two log lines

}  // namespace

absl::StatusOr<std::unique_ptr<PortMultiplexer>> PortMultiplexer::Listen(
    const std::string& address) {
  absl::StatusOr<ListeningSockets> sockets = ListenAt(address);
  if (!sockets.ok()) return sockets.status();
  std::unique_ptr<PortMultiplexer> multiplexer(new PortMultiplexer(*std::move(sockets)));
  if (multiplexer->stop_fd_ < 0) return absl::ResourceExhaustedError("no descriptor is left");
  return multiplexer;
}

PortMultiplexer::PortMultiplexer(ListeningSockets sockets)
    : sockets_(std::move(sockets)),
      stop_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      descriptors_(DescriptorsMax()) {}

PortMultiplexer::~PortMultiplexer() {
  if (thread_.joinable()) {
    const uint64_t once = 1;
    (void)!write(stop_fd_, &once, sizeof(once));
    thread_.join();
  }
  for (UnauthenticatedConnection& connection : unauthenticated_) CloseUnauthenticated(connection);
  for (const int fd : sockets_.fds) close(fd);
  if (stop_fd_ >= 0) close(stop_fd_);
  RemoveSocket(sockets_);
}

void PortMultiplexer::Open(StreamConnection::Serving streams, std::function<void(int fd)> others,
                           std::shared_ptr<Credentials> credentials,
                           std::shared_ptr<RefusedPeers> refused) {
  streams_ = std::move(streams);
  others_ = std::move(others);
  credentials_ = std::move(credentials);
  refused_ = std::move(refused);
  thread_ = std::thread([this] { Run(); });
}

void PortMultiplexer::Run() {
  bool room = true;
  int64_t looked_ms = 0;    // when incomplete connections were last examined
  int64_t believed_ms = 0;  // when the certificates of streams were
  while (true) {
    std::vector<pollfd> wanted = {{stop_fd_, POLLIN, 0}};
    for (const int fd : sockets_.fds) wanted.push_back({room ? fd : -1, POLLIN, 0});
    const size_t first = wanted.size();
    int patience_ms = room ? kReapMs : kNoRoomMs;
    for (const UnauthenticatedConnection& connection : unauthenticated_) {
      wanted.push_back({connection.fd, connection.events, 0});
      if (connection.events == 0) patience_ms = std::min(patience_ms, kLookAgainMs);
    }
    poll(wanted.data(), wanted.size(), patience_ms);
    if (wanted[0].revents != 0) return;
    served_.Reap();
    if (SteadyMs() - believed_ms >= kReapMs) {
      believed_ms = SteadyMs();
      EndUnbelieved();
    }
    const bool looks = SteadyMs() - looked_ms >= kLookAgainMs;
    if (looks) looked_ms = SteadyMs();
    std::vector<UnauthenticatedConnection> still;
    for (size_t i = 0; i < unauthenticated_.size(); ++i) {
      const bool ready = unauthenticated_[i].events == 0 ? looks && HasMore(unauthenticated_[i])
                                                         : wanted[first + i].revents != 0;
      if (!Sort(unauthenticated_[i], ready)) still.push_back(std::move(unauthenticated_[i]));
    }
    unauthenticated_ = std::move(still);
    room = true;
    for (const int fd : sockets_.fds) room = Accept(fd) && room;
  }
}

void PortMultiplexer::CloseUnauthenticated(UnauthenticatedConnection& connection) {
  if (connection.channel == nullptr) close(connection.fd);
  connection.channel = nullptr;
}

// Whether bytes arrived since the last look, asked of the kernel without reading them again.
bool PortMultiplexer::HasMore(const UnauthenticatedConnection& connection) {
  int bytes = 0;
  return ioctl(connection.fd, FIONREAD, &bytes) != 0 || bytes > connection.seen;
}

void PortMultiplexer::SayFull(const std::string& why) {
  const int64_t now_ms = SteadyMs();
  if (said_full_ms_.has_value() && now_ms - *said_full_ms_ < kSayFullMs) return;
  said_full_ms_ = now_ms;
  Logger("listener")
      .Warn(
          "{}: new connections wait, {}; this process may have {} descriptors (ulimit -n), {} of "
          "them "
          "for files",
          address(), why, descriptors_, kFileDescriptors);
}

// Whether descriptors are left for a connection, and for the two by which gRPC is reached.
bool PortMultiplexer::HasRoom() const {
  const int next = fcntl(stop_fd_, F_DUPFD_CLOEXEC, 0);
  if (next >= 0) close(next);
  return next >= 0 && next + 2 < descriptors_ - kFileDescriptors;
}

// Returns false if there are no descriptors left for a connection, which stays in the backlog.
bool PortMultiplexer::Accept(int listener) {
  while (true) {
    if (!HasRoom()) {
      pollfd waiting{listener, POLLIN, 0};
      if (poll(&waiting, 1, 0) == 0) return true;
      SayFull("all descriptors are in use");
      return false;
    }
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      SetStreamOptions(fd);
      UnauthenticatedConnection connection;
      connection.fd = fd;
      connection.since_ms = SteadyMs();
      if (Sort(connection, true)) continue;
      if (unauthenticated_.size() >= kUnauthenticatedMax) {
        CloseUnauthenticated(unauthenticated_.front());
        unauthenticated_.erase(unauthenticated_.begin());
      }
      unauthenticated_.push_back(std::move(connection));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      SayFull(std::strerror(errno));
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }  // else of that connection alone
  }
}

// Hands the connection to streams or gRPC, or closes it. Returns false while the protocol is
// unknown.
bool PortMultiplexer::Sort(UnauthenticatedConnection& connection, bool ready) {
  if (ready && (connection.channel == nullptr  ? Look(connection)
                : connection.shakes != nullptr ? Shake(connection)
                                               : Hear(connection))) {
    return true;
  }
  if (SteadyMs() - connection.since_ms < kSpeakMs) return false;
  CloseUnauthenticated(connection);
  return true;
}

// Peeks at the first bytes and leaves them in the socket for streams or gRPC.
bool PortMultiplexer::Look(UnauthenticatedConnection& connection) {
  if (credentials_ != nullptr) return LookForTls(connection);
  char first = 0;
  const ssize_t got = recv(connection.fd, &first, 1, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    CloseUnauthenticated(connection);
  } else if (first == kStreamGreeting[0]) {
    connection.channel = MakePlainChannel(connection.fd);
    connection.peer.access = streams_.access;
    return AwaitGreeting(connection);
  } else {
    others_(connection.fd);
  }
  return true;
}

bool PortMultiplexer::LookForTls(UnauthenticatedConnection& connection) {
  std::array<char, kClientHelloMax> bytes;
  const ssize_t got = recv(connection.fd, bytes.data(), bytes.size(), MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const std::string_view hello(bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  switch (hello.empty() ? Offer::kBad : OffersProtocol(hello, kStreamProtocol)) {
    case Offer::kMore:
      connection.events = 0;  // poll would return at once for the bytes already there
      connection.seen = static_cast<int>(got);
      return false;
    case Offer::kNo:
      others_(connection.fd);
      return true;
    case Offer::kBad:
      if (!hello.empty()) {
        Refuse(connection.fd, RefusedPeers::Cause::kTls, "",
               absl::UnauthenticatedError("it speaks no TLS"));
      }
      CloseUnauthenticated(connection);
      return true;
    case Offer::kYes:
      break;
  }
  const std::shared_ptr<const Credentials::Keys> keys = credentials_->Current();
  absl::StatusOr<std::unique_ptr<TlsChannel>> tls =
      TlsChannel::Make(connection.fd, keys->server.get(), TlsChannel::End::kServer);
  if (!tls.ok()) {
    Refuse(-1, RefusedPeers::Cause::kTls, "", tls.status());
    return true;
  }
  connection.shakes = tls->get();
  connection.channel = *std::move(tls);
  return Shake(connection);
}

bool PortMultiplexer::Shake(UnauthenticatedConnection& connection) {
  const absl::StatusOr<TlsChannel::Step> step = connection.shakes->Handshake();
  if (!step.ok()) {
    Refuse(connection.fd, RefusedPeers::Cause::kTls, "", step.status());
    CloseUnauthenticated(connection);
    return true;
  }
  connection.events = *step == TlsChannel::Step::kWrites ? POLLOUT : POLLIN;
  if (*step != TlsChannel::Step::kDone) return false;
  absl::StatusOr<RelayedPeer> peer = PeerBehind(*connection.shakes, *credentials_);
  if (!peer.ok()) {
    Refuse(connection.fd, RefusedPeers::Cause::kTls, "", peer.status());
    CloseUnauthenticated(connection);
    return true;
  }
  connection.shakes = nullptr;
  connection.peer = *std::move(peer);
  return AwaitGreeting(connection);
}

bool PortMultiplexer::AwaitGreeting(UnauthenticatedConnection& connection) {
  EndIfNotRead(connection.fd);  // the kernel buffers replies to a peer that reads nothing
  return Hear(connection);
}

bool PortMultiplexer::Hear(UnauthenticatedConnection& connection) {
  const ClientGreeting::Step step = connection.greeting.Receive(*connection.channel);
  if (step == ClientGreeting::Step::kMore) return false;
  // Every stream occupies a thread, hence only peers allowed to call Exchange and Stage get a
  // stream. A peer that closes right after the handshake was a probe looking for the reason of a
  // failure.
  absl::Status may = connection.peer.access.Check(method::kExchange);
  RefusedPeers::Cause cause = RefusedPeers::Cause::kRight;
  if (step == ClientGreeting::Step::kBad) {
    cause = RefusedPeers::Cause::kGreeting;
    may = absl::InvalidArgumentError("it does not greet as a stream of this version does");
  } else if (connection.peer.needs_token && !credentials_->IsToken(connection.greeting.token())) {
    cause = RefusedPeers::Cause::kGreeting;
    may = absl::UnauthenticatedError(
        "it has no certificate of the cluster (--tls-cert), and does not show its token "
        "(--token-file)");
  }
  if (step != ClientGreeting::Step::kGone && may.ok()) {
    ServeStream(std::move(connection.channel), std::move(connection.peer));
    return true;
  }
  if (step != ClientGreeting::Step::kGone) {
    Refuse(connection.fd, cause, connection.peer.certificate.Name(), may);
  }
  CloseUnauthenticated(connection);
  return true;
}

void PortMultiplexer::Refuse(int fd, RefusedPeers::Cause cause, const std::string& name,
                             const absl::Status& why) const {
  refused_->Note({.cause = cause,
                  .address = fd < 0 ? "a connection" : PeerOf(fd),
                  .certificate = name,
                  .why = std::string(why.message())});
}

// Ends connections whose certificate has expired or was revoked meanwhile.
void PortMultiplexer::EndUnbelieved() {
  if (credentials_ == nullptr) return;
  served_.EndIf([this](const PeerCertificate& certificate) {
    const std::string problem = credentials_->ProblemOf(certificate);
    if (problem.empty()) return false;
    Logger("listener")
        .Warn("ends a stream of {peer}, since its certificate is believed no more: {reason}",
              "peer"_a = certificate.Name(), "reason"_a = problem);
    return true;
  });
}

void PortMultiplexer::ServeStream(std::unique_ptr<Channel> channel, RelayedPeer peer) {
  Access& access = peer.access;
  // Any number of tasks may share a certificate without an index; together they get the larger
  // limit.
  const bool one = access.peer().has_value() && access.peer()->index.has_value();
  const int64_t streams_max = one ? kOfOneTaskMax : kOfOneRoleMax;
  const std::string task = access.peer().has_value() ? access.peer()->Task() : "";
  StreamConnection::Serving serving = streams_;
  serving.access = std::move(access);
  Channel& greeted = *channel;
  const int fd = greeted.fd();
  const std::string name = peer.certificate.Name();
  const auto connection =
      std::make_shared<StreamConnection>(std::move(channel), std::move(serving), "stream");
  const bool served = served_.Add(
      [connection, &greeted] {
        if (!ClientGreeting::Answer(greeted)) return connection->Close();
        connection->Run();
      },
      [connection] { connection->Close(); }, task, streams_max, std::move(peer.certificate));
  if (!served) {
    Refuse(fd, RefusedPeers::Cause::kStreams, name,
           absl::ResourceExhaustedError(
               absl::StrCat("no further stream is served: ", task.empty() ? "a stranger" : task,
                            " may have ", streams_max, ", and all peers 1024")));
  }
}

}  // namespace paracord
