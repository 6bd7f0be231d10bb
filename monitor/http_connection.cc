#include "monitor/http_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/log.h"
#include "common/steady_ms.h"
#include "net/client_hello.h"
#include "net/socket_address.h"

namespace paracord {
namespace {

bool IsLater() { return errno == EAGAIN || errno == EINTR; }

// Receives available bytes. Returns their number, 0 if the peer has closed, -1 if none are
// available, -2 if the connection is broken.
ssize_t Receive(Channel& channel, char* to, size_t size) {
  iovec room{to, size};
  const ssize_t got = channel.Receive({&room, 1});
  if (got >= 0) return got;
  return IsLater() ? -1 : -2;
}

ssize_t Transmit(Channel& channel, char* from, size_t size) {
  iovec piece{from, size};
  const ssize_t put = channel.Send({&piece, 1});
  if (put >= 0) return put;
  return IsLater() ? -1 : -2;
}

}  // namespace

HttpConnection::HttpConnection(uint64_t id, int fd, Credentials* https, int64_t deadline_ms)
    : id_(id),
      https_(https),
      fd_(fd),
      state_(https == nullptr ? State::kHead : State::kHandshake),
      deadline_ms_(deadline_ms) {
  if (https_ == nullptr) channel_ = MakePlainChannel(std::exchange(fd_, -1));
}

HttpConnection::~HttpConnection() {
  if (fd_ >= 0) ::close(fd_);
}

short HttpConnection::events() const {
  const bool sends = state_ == State::kSending || (state_ == State::kHandshake && shake_sends_);
  return sends ? POLLOUT : POLLIN;
}

bool HttpConnection::ShakeHands() {
  if (state_ == State::kHandshake && channel_ == nullptr) BeginHandshake();
  if (state_ == State::kHandshake && channel_ != nullptr) {
    const absl::StatusOr<TlsChannel::Step> step = tls_->Handshake();
    if (!step.ok()) {
      SayRefused(std::string(step.status().message()));
      Close();
    } else if (*step == TlsChannel::Step::kDone) {
      const absl::Status may = https_->CheckReader(tls_->ssl());
      state_ = State::kHead;
      if (!may.ok()) {
        SayRefused(std::string(may.message()));
        Send({403, std::string(may.message()) + "\n"}, SteadyMs() + kLingerMs);
      }
    } else {
      shake_sends_ = *step == TlsChannel::Step::kWrites;
    }
  }
  return state_ != State::kHandshake && state_ != State::kClosed;
}

// Peeks at the first byte, if any, to choose between TLS and an error in plain text.
void HttpConnection::BeginHandshake() {
  char first = 0;
  const ssize_t got = ::recv(fd_, &first, 1, MSG_PEEK);
  if (got < 0 && IsLater()) return;
  if (got <= 0) return Close();
  peer_ = PeerOf(fd_);  // the address is unknown once the peer has left
  const int fd = std::exchange(fd_, -1);
  if (first != kTlsRecordOfHandshake) {
    channel_ = MakePlainChannel(fd);
    SayRefused("it speaks no TLS");
    return Send({400, "HTTPS is spoken here, not HTTP: the URL has to begin with https://\n"},
                SteadyMs() + kLingerMs);
  }
  auto tls = TlsChannel::Make(fd, https_->Current()->https.get(), TlsChannel::End::kServer);
  if (!tls.ok()) return Close();
  tls_ = tls->get();
  channel_ = *std::move(tls);
}

// Strangers could fill the log, so at most one refusal a second is logged.
void HttpConnection::SayRefused(const std::string& why) const {
  static OncePerSecond may_say;
  if (may_say.Now()) Logger("https").Warn("{} is refused: {}", peer_, why);
}

std::optional<std::string> HttpConnection::ReadHeadBytes(size_t bytes_max) {
  char room[4096];
  while (state_ == State::kHead) {
    const ssize_t got = Receive(*channel_, room, sizeof room);
    if (got == -1) return std::nullopt;
    if (got <= 0) {
      Close();
      return std::nullopt;
    }
    in_.append(room, static_cast<size_t>(got));
    const size_t end = HeadEnd(in_);
    if (end <= bytes_max) return in_.substr(0, end);
    if (in_.size() > bytes_max) {
      Send({431, "the request's head is too long\n"}, SteadyMs() + kLingerMs);
    }
  }
  return std::nullopt;
}

void HttpConnection::AwaitAnswer(int64_t deadline_ms) {
  state_ = State::kAnswering;
  deadline_ms_ = deadline_ms;
  in_.clear();
}

void HttpConnection::Send(const HttpReply& reply, int64_t deadline_ms) {
  if (state_ == State::kClosed) return;
  state_ = State::kSending;
  deadline_ms_ = deadline_ms;
  out_ = Encode(reply);
  GoOn();
}

void HttpConnection::GoOn() {
  while (state_ == State::kSending) {
    if (sent_ < out_.size()) {
      const ssize_t put = Transmit(*channel_, out_.data() + sent_, out_.size() - sent_);
      if (put == -1) return;
      if (put < 0) return Close();
      sent_ += static_cast<size_t>(put);
      continue;
    }
    if (!channel_->EndSending()) {
      if (IsLater()) return;
      return Close();
    }
    state_ = State::kLingering;
    deadline_ms_ = SteadyMs() + kLingerMs;
  }
  char room[4096];
  while (state_ == State::kLingering) {
    const ssize_t got = Receive(*channel_, room, sizeof room);
    if (got == -1) return;
    if (got > 0) lingered_bytes_ += static_cast<size_t>(got);
    if (got <= 0 || lingered_bytes_ > kLingerBytesMax) Close();
  }
}

void HttpConnection::Expire(int64_t send_deadline_ms) {
  if (state_ == State::kHead && !in_.empty()) {
    Send({408, "the request's head took too long\n"}, send_deadline_ms);
  } else if (state_ == State::kAnswering) {
    Send({503, "no answer in time: the daemon's event loop does not turn\n"}, send_deadline_ms);
  } else {
    Close();
  }
}

}  // namespace paracord
