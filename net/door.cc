#include "net/door.h"

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
constexpr size_t kStrangersMax = 1024;
constexpr int64_t kOfOneTaskMax = 64;   // streams of one certificate with an index
constexpr int64_t kOfOneRoleMax = 256;  // streams of all certificates without one
constexpr int kLookAgainMs = 20;        // a stranger whose first bytes are incomplete
constexpr int kReapMs = 1000;
constexpr int kNoRoomMs = 100;         // retry of accept after descriptors ran out
constexpr int64_t kSayFullMs = 10000;  // between two log lines

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
  for (Stranger& stranger : strangers_) CloseStranger(stranger);
  for (const int fd : sockets_.fds) close(fd);
  if (stop_fd_ >= 0) close(stop_fd_);
  RemoveSocket(sockets_);
}

void Door::Open(StreamConnection::Serving streams, std::function<void(int fd)> others,
                std::shared_ptr<Credentials> credentials, std::shared_ptr<RefusedPeers> refused) {
  streams_ = std::move(streams);
  others_ = std::move(others);
  credentials_ = std::move(credentials);
  refused_ = std::move(refused);
  thread_ = std::thread([this] { Run(); });
}

void Door::Run() {
  bool room = true;
  int64_t looked_ms = 0;    // when incomplete strangers were last examined
  int64_t believed_ms = 0;  // when the certificates of streams were
  while (true) {
    std::vector<pollfd> wanted = {{stop_fd_, POLLIN, 0}};
    for (const int fd : sockets_.fds) wanted.push_back({room ? fd : -1, POLLIN, 0});
    const size_t first = wanted.size();
    int patience_ms = room ? kReapMs : kNoRoomMs;
    for (const Stranger& stranger : strangers_) {
      wanted.push_back({stranger.fd, stranger.events, 0});
      if (stranger.events == 0) patience_ms = std::min(patience_ms, kLookAgainMs);
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
    std::vector<Stranger> still;
    for (size_t i = 0; i < strangers_.size(); ++i) {
      const bool ready = strangers_[i].events == 0 ? looks && HasMore(strangers_[i])
                                                   : wanted[first + i].revents != 0;
      if (!Sort(strangers_[i], ready)) still.push_back(std::move(strangers_[i]));
    }
    strangers_ = std::move(still);
    room = true;
    for (const int fd : sockets_.fds) room = Accept(fd) && room;
  }
}

void Door::CloseStranger(Stranger& stranger) {
  if (stranger.channel == nullptr) close(stranger.fd);
  stranger.channel = nullptr;
}

// Whether bytes arrived since the last look, asked of the kernel without reading them again.
bool Door::HasMore(const Stranger& stranger) {
  int bytes = 0;
  return ioctl(stranger.fd, FIONREAD, &bytes) != 0 || bytes > stranger.seen;
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
          address(), why, descriptors_, kFileDescriptors);
}

// Returns false if there are no descriptors left for a connection.
bool Door::Accept(int listener) {
  while (true) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= descriptors_ - kFileDescriptors) {
      close(fd);
      SayFull("all descriptors are in use");
      return false;
    }
    if (fd >= 0) {
      SetStreamOptions(fd);
      Stranger stranger;
      stranger.fd = fd;
      stranger.since_ms = SteadyMs();
      if (Sort(stranger, true)) continue;
      if (strangers_.size() >= kStrangersMax) {
        CloseStranger(strangers_.front());
        strangers_.erase(strangers_.begin());
      }
      strangers_.push_back(std::move(stranger));
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
bool Door::Sort(Stranger& stranger, bool ready) {
  if (ready && (stranger.channel == nullptr  ? Look(stranger)
                : stranger.shakes != nullptr ? Shake(stranger)
                                             : Hear(stranger))) {
    return true;
  }
  if (SteadyMs() - stranger.since_ms < kSpeakMs) return false;
  CloseStranger(stranger);
  return true;
}

// Peeks at the first bytes and leaves them in the socket for streams or gRPC.
bool Door::Look(Stranger& stranger) {
  if (credentials_ != nullptr) return LookForTls(stranger);
  char first = 0;
  const ssize_t got = recv(stranger.fd, &first, 1, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    CloseStranger(stranger);
  } else if (first == kStreamGreeting[0]) {
    stranger.channel = MakePlainChannel(stranger.fd);
    stranger.peer.access = streams_.access;
    return AwaitGreeting(stranger);
  } else {
    others_(stranger.fd);
  }
  return true;
}

bool Door::LookForTls(Stranger& stranger) {
  std::array<char, kClientHelloMax> bytes;
  const ssize_t got = recv(stranger.fd, bytes.data(), bytes.size(), MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const std::string_view hello(bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  switch (hello.empty() ? Offer::kBad : OffersProtocol(hello, kStreamProtocol)) {
    case Offer::kMore:
      stranger.events = 0;  // poll would return at once for the bytes already there
      stranger.seen = static_cast<int>(got);
      return false;
    case Offer::kNo:
      others_(stranger.fd);
      return true;
    case Offer::kBad:
      if (!hello.empty()) {
        Refuse(stranger.fd, RefusedPeers::Cause::kTls, "",
               absl::UnauthenticatedError("it speaks no TLS"));
      }
      CloseStranger(stranger);
      return true;
    case Offer::kYes:
      break;
  }
  const std::shared_ptr<const Credentials::Keys> keys = credentials_->Current();
  absl::StatusOr<std::unique_ptr<TlsChannel>> tls =
      TlsChannel::Make(stranger.fd, keys->server.get(), TlsChannel::End::kServer);
  if (!tls.ok()) {
    Refuse(-1, RefusedPeers::Cause::kTls, "", tls.status());
    return true;
  }
  stranger.shakes = tls->get();
  stranger.channel = *std::move(tls);
  return Shake(stranger);
}

bool Door::Shake(Stranger& stranger) {
  const absl::StatusOr<TlsChannel::Step> step = stranger.shakes->Handshake();
  if (!step.ok()) {
    Refuse(stranger.fd, RefusedPeers::Cause::kTls, "", step.status());
    CloseStranger(stranger);
    return true;
  }
  stranger.events = *step == TlsChannel::Step::kWrites ? POLLOUT : POLLIN;
  if (*step != TlsChannel::Step::kDone) return false;
  absl::StatusOr<RelayedPeer> peer = PeerBehind(*stranger.shakes, *credentials_);
  if (!peer.ok()) {
    Refuse(stranger.fd, RefusedPeers::Cause::kTls, "", peer.status());
    CloseStranger(stranger);
    return true;
  }
  stranger.shakes = nullptr;
  stranger.peer = *std::move(peer);
  return AwaitGreeting(stranger);
}

bool Door::AwaitGreeting(Stranger& stranger) {
  EndIfNotRead(stranger.fd);  // the kernel buffers replies to a peer that reads nothing
  return Hear(stranger);
}

bool Door::Hear(Stranger& stranger) {
  const ClientGreeting::Step step = stranger.greeting.Receive(*stranger.channel);
  if (step == ClientGreeting::Step::kMore) return false;
  // Every stream occupies a thread, hence only peers allowed to call Exchange and Stage get a
  // stream. A peer that closes right after the handshake was a probe looking for the reason of a
  // failure.
  const absl::Status may = stranger.peer.access.Check(method::kExchange);
  if (step == ClientGreeting::Step::kWhole && !may.ok()) {
    Refuse(stranger.fd, RefusedPeers::Cause::kRight, stranger.peer.certificate.Name(), may);
    CloseStranger(stranger);
    return true;
  }
  const bool lets_in =
      step == ClientGreeting::Step::kWhole &&
      (!stranger.peer.needs_token || credentials_->IsToken(stranger.greeting.token()));
  if (lets_in) {
    ServeStream(std::move(stranger.channel), std::move(stranger.peer));
  } else {
    CloseStranger(stranger);
  }
  return true;
}

void Door::Refuse(int fd, RefusedPeers::Cause cause, const std::string& name,
                  const absl::Status& why) const {
  refused_->Note({.cause = cause,
                  .address = fd < 0 ? "a connection" : PeerOf(fd),
                  .certificate = name,
                  .why = std::string(why.message())});
}

// Ends connections whose certificate has expired or was revoked meanwhile.
void Door::EndUnbelieved() {
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

void Door::ServeStream(std::unique_ptr<Channel> channel, RelayedPeer peer) {
  Access& access = peer.access;
  // Any number of tasks may share a certificate without an index; together they get the larger
  // limit.
  const bool one = access.peer().has_value() && access.peer()->index.has_value();
  const int64_t streams_max = one ? kOfOneTaskMax : kOfOneRoleMax;
  const std::string task = access.peer().has_value() ? access.peer()->Task() : "";
  StreamConnection::Serving serving = streams_;
  serving.access = std::move(access);
  Channel& greeted = *channel;
  const auto connection =
      std::make_shared<StreamConnection>(std::move(channel), std::move(serving), "stream");
  served_.Add(
      [connection, &greeted] {
        if (!ClientGreeting::Answer(greeted)) return connection->Close();
        connection->Run();
      },
      [connection] { connection->Close(); }, task, streams_max, std::move(peer.certificate));
}

}  // namespace paracord
