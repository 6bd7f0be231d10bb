#include "net/stream_link.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/try_thread.h"
#include "net/socket_address.h"
#include "net/stream_connection.h"
#include "net/stream_greeting.h"
#include "net/tls_channel.h"
#include "security/call_rights.h"

namespace paracord {
namespace {

constexpr int64_t kConnectMs = 1000;  // including the name lookup
constexpr int64_t kGreetMs = 1000;
constexpr int64_t kAgainMs = 1000;        // until the next attempt after a connection failed
constexpr int64_t kSilentAgainMs = 5000;  // after the peer, perhaps a stopped process, was silent
constexpr int64_t kNotSpokenMs = 60 * 1000;  // after the peer did not greet

using Clock = std::chrono::steady_clock;

int64_t MsUntil(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(then - Clock::now()).count();
}

int64_t MsSince(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then).count();
}

// The state used by the connecting thread, which may outlive the link.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::unique_ptr<Link> beneath, NameLookup name, std::shared_ptr<Credentials> credentials)
      : address_(beneath->address()),
        credentials_(std::move(credentials)),
        name_(std::move(name)),
        beneath_(std::move(beneath)) {}

  void Call(std::string_view method, Parts request, int64_t deadline_ms,
            std::shared_ptr<ReplySink> sink, ReplyFn done);
  void Close();
  const std::string& address() const { return address_; }

 private:
  struct Waiting {
    std::string method;
    Parts request;
    int64_t deadline_ms;
    std::shared_ptr<ReplySink> sink;
    ReplyFn done;
    Clock::time_point since;
  };
  void Connect(Clock::time_point until);
  absl::Status CheckPeer(SSL* ssl);
  // A channel to a peer that speaks streams, and the check of the peer's certificate.
  struct Opened {
    std::unique_ptr<Channel> channel;
    std::function<bool()> believes;
  };
  Opened Open(int fd, Clock::time_point until, int64_t& again_ms);
  std::function<bool()> Believes(SSL* ssl) const;
  void Connected(const std::shared_ptr<StreamConnection>& connection, int64_t again_ms);

  const std::string address_;
  const std::shared_ptr<Credentials> credentials_;  // null: without TLS
  NameLookup name_;
  Mutex mu_;
  std::unique_ptr<Link> beneath_ ABSL_GUARDED_BY(mu_);  // null once closed
  bool connecting_ ABSL_GUARDED_BY(mu_) = false;
  Clock::time_point connects_until_ ABSL_GUARDED_BY(mu_);
  Clock::time_point not_before_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<StreamConnection> connection_ ABSL_GUARDED_BY(mu_);
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mu_);  // calls waiting for the connection
  bool handing_over_ ABSL_GUARDED_BY(mu_) = false;     // waiting_ is being handed to the connection
  std::thread::id connector_ ABSL_GUARDED_BY(mu_);     // the thread that hands over
  std::condition_variable_any handed_over_;
};

void Stream::Call(std::string_view method, Parts request, int64_t deadline_ms,
                  std::shared_ptr<ReplySink> sink, ReplyFn done) {
  std::shared_ptr<StreamConnection> connection;
  {
    MutexLock lock(mu_);
    if (connection_ != nullptr && !connection_->alive()) {
      connection_ = nullptr;
      not_before_ = Clock::now() + std::chrono::milliseconds(kAgainMs);
    }
    connection = connection_;
    if (connection == nullptr && !connecting_ && Clock::now() >= not_before_) {
      const int64_t patience_ms = std::min(deadline_ms, kConnectMs + kGreetMs);
      connects_until_ = Clock::now() + std::chrono::milliseconds(patience_ms);
      std::optional<std::thread> thread =
          TryThread([self = shared_from_this(), until = connects_until_] { self->Connect(until); });
      connecting_ = thread.has_value();
      if (connecting_) thread->detach();
    }
    // A call whose deadline would pass before the connection is up does not wait.
    if (connecting_ && deadline_ms >= MsUntil(connects_until_)) {
      waiting_.push_back({std::string(method), std::move(request), deadline_ms, std::move(sink),
                          std::move(done), Clock::now()});
      return;
    }
    if (connection == nullptr) {
      return beneath_->Call(method, std::move(request), deadline_ms, std::move(done));
    }
  }
  connection->Call(method, std::move(request), deadline_ms, std::move(sink), std::move(done));
}

// Runs in a thread of its own, which then reads the connection.
void Stream::Connect(Clock::time_point until) {
  const absl::StatusOr<int> fd =
      ConnectSocket(name_, std::clamp<int64_t>(MsUntil(until), 1, kConnectMs));
  if (!fd.ok()) return Connected(nullptr, kAgainMs);
  int64_t again_ms = kNotSpokenMs;
  Opened opened = Open(*fd, until, again_ms);
  if (opened.channel == nullptr) return Connected(nullptr, again_ms);
  const auto connection = std::make_shared<StreamConnection>(
      std::move(opened.channel), StreamConnection::Serving(), address_, std::move(opened.believes));
  Connected(connection, kAgainMs);
  connection->Run();
}

// Returns no channel if the peer does not speak streams, or fails verification. Sets `again_ms` if
// another attempt may soon succeed.
Stream::Opened Stream::Open(int fd, Clock::time_point until, int64_t& again_ms) {
  bool silent = false;
  Opened opened;
  std::unique_ptr<Channel>& channel = opened.channel;
  std::string token;
  if (credentials_ == nullptr) {
    channel = MakePlainChannel(fd);
  } else {
    const std::shared_ptr<const Credentials::Keys> keys = credentials_->Current();
    absl::StatusOr<std::unique_ptr<TlsChannel>> tls =
        TlsChannel::Make(fd, keys->client.get(), TlsChannel::End::kClient);
    absl::Status status = tls.status();
    if (tls.ok()) status = (*tls)->HandshakeWithin(MsUntil(until), &silent);
    if (status.ok()) status = CheckPeer((*tls)->ssl());
    if (!status.ok()) {
      if (absl::IsUnauthenticated(status)) {
        Logger("connection")
            .Warn("{address}: no stream: {reason}", "address"_a = address_,
                  "reason"_a = std::string(status.message()));
      }
      if (absl::IsUnavailable(status)) again_ms = kAgainMs;  // the peer may be overloaded
      if (silent) again_ms = kSilentAgainMs;
      return {};
    }
    if (!keys->own.has_value()) token = keys->token;
    opened.believes = Believes((*tls)->ssl());
    channel = *std::move(tls);
  }
  if (GreetStream(*channel, std::min(kGreetMs, MsUntil(until)), &silent, token)) return opened;
  if (silent) again_ms = kSilentAgainMs;
  return {};
}

// The certificate of a ps may expire or be revoked while the stream lasts.
std::function<bool()> Stream::Believes(SSL* ssl) const {
  return [credentials = credentials_, certificate = PeerCertificate(ssl), address = address_] {
    const std::string problem = credentials->ProblemOf(certificate);
    if (problem.empty()) return true;
    Logger("connection")
        .Warn("{address}: ends the stream, since its certificate is believed no more: {reason}",
              "peer"_a = certificate.Name(), "address"_a = address, "reason"_a = problem);
    return false;
  };
}

// Streams are dialled to a ps only.
absl::Status Stream::CheckPeer(SSL* ssl) {
  const absl::StatusOr<PeerIdentity> peer = credentials_->PeerOf(ssl);
  if (!peer.ok()) return peer.status();
  const NodeRights& nodes = credentials_->nodes();
  if (Serves(*peer, PeerRole::kPs, address_, nodes)) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("its certificate is that of ", peer->Uri(),
                                                 ", and not of ",
                                                 ServerText(PeerRole::kPs, address_, nodes)));
}

// Hands the waiting calls to the connection, or to the link beneath if there is none.
void Stream::Connected(const std::shared_ptr<StreamConnection>& connection, int64_t again_ms) {
  std::vector<Waiting> waiting;
  {
    MutexLock lock(mu_);
    connecting_ = false;
    connector_ = std::this_thread::get_id();
    connection_ = connection;
    not_before_ = Clock::now() + std::chrono::milliseconds(again_ms);
    waiting.swap(waiting_);
    for (Waiting& call : waiting) {
      call.deadline_ms = std::max<int64_t>(1, call.deadline_ms - MsSince(call.since));
      if (connection == nullptr) {  // if the link were closed, nobody would wait
        beneath_->Call(call.method, std::move(call.request), call.deadline_ms,
                       std::move(call.done));
      }
    }
    if (connection == nullptr) return;
    if (beneath_ == nullptr) connection->Close();
    handing_over_ = true;
  }
  for (Waiting& call : waiting) {
    connection->Call(call.method, std::move(call.request), call.deadline_ms, std::move(call.sink),
                     std::move(call.done));
  }
  MutexLock lock(mu_);
  handing_over_ = false;
  handed_over_.notify_all();
}

void Stream::Close() {
  std::unique_ptr<Link> beneath;
  std::shared_ptr<StreamConnection> connection;
  std::vector<Waiting> waiting;
  {
    MutexLock lock(mu_);
    beneath.swap(beneath_);
    connection.swap(connection_);
    waiting.swap(waiting_);
  }
  if (connection != nullptr) connection->Close();
  for (Waiting& call : waiting) {
    call.done(absl::CancelledError(absl::StrCat(address_, ": the link was closed")));
  }
  std::unique_lock<std::mutex> lock(mu_.native());
  handed_over_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !handing_over_ || connector_ == std::this_thread::get_id();
  });
}

class StreamLink : public Link {
 public:
  StreamLink(std::unique_ptr<Link> beneath, NameLookup name,
             std::shared_ptr<Credentials> credentials)
      : stream_(std::make_shared<Stream>(std::move(beneath), std::move(name),
                                         std::move(credentials))) {}
  ~StreamLink() override { stream_->Close(); }

  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) override {
    stream_->Call(method, std::move(request), deadline_ms, nullptr, std::move(done));
  }
  void CallInto(std::string_view method, Parts request, int64_t deadline_ms,
                std::shared_ptr<ReplySink> sink, ReplyFn done) override {
    stream_->Call(method, std::move(request), deadline_ms, std::move(sink), std::move(done));
  }
  const std::string& address() const override { return stream_->address(); }

 private:
  const std::shared_ptr<Stream> stream_;
};

}  // namespace

std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath,
                                     std::shared_ptr<Credentials> credentials) {
  NameLookup name(beneath->address());
  return MakeStreamLink(std::move(beneath), std::move(name), std::move(credentials));
}

std::unique_ptr<Link> MakeStreamLink(std::unique_ptr<Link> beneath, NameLookup name,
                                     std::shared_ptr<Credentials> credentials) {
  return std::make_unique<StreamLink>(std::move(beneath), std::move(name), std::move(credentials));
}

}  // namespace paracord
