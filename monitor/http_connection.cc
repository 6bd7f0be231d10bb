#include "monitor/http_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/steady_ms.h"

namespace paracord {
namespace {

// The bytes that are there; 0: the peer has closed; -1: nothing now; -2: it is broken.
ssize_t Receive(int fd, char* to, size_t size) {
  const ssize_t got = ::recv(fd, to, size, 0);
  if (got >= 0) return got;
  return errno == EAGAIN || errno == EINTR ? -1 : -2;
}

ssize_t Transmit(int fd, const char* from, size_t size) {
  const ssize_t put = ::send(fd, from, size, MSG_NOSIGNAL);
  if (put >= 0) return put;
  return errno == EAGAIN || errno == EINTR ? -1 : -2;
}

}  // namespace

HttpConnection::~HttpConnection() { ::close(fd_); }

short HttpConnection::events() const { return state_ == State::kSending ? POLLOUT : POLLIN; }

std::optional<std::string> HttpConnection::ReadHeadBytes(size_t bytes_max) {
  char room[4096];
  while (state_ == State::kHead) {
    const ssize_t got = Receive(fd_, room, sizeof room);
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
    const ssize_t put = Transmit(fd_, out_.data() + sent_, out_.size() - sent_);
    if (put == -1) return;
    if (put < 0) return Close();
    sent_ += static_cast<size_t>(put);
    if (sent_ < out_.size()) continue;
    ::shutdown(fd_, SHUT_WR);
    state_ = State::kLingering;
    deadline_ms_ = SteadyMs() + kLingerMs;
  }
  char room[4096];
  while (state_ == State::kLingering) {
    const ssize_t got = Receive(fd_, room, sizeof room);
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
