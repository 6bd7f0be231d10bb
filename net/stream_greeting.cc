#include "net/stream_greeting.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/steady_ms.h"

namespace paracord {
namespace {

constexpr std::string_view kGreeting(kStreamGreeting);
constexpr std::string_view kName = kGreeting.substr(0, kGreeting.size() - 1);

// Sends a line. A fresh socket's buffer always has room for a greeting.
bool Say(Channel& channel, std::string line) {
  iovec piece{line.data(), line.size()};
  return channel.Send({&piece, 1}) == static_cast<ssize_t>(line.size());
}

// Receives a single byte, because the bytes behind the greeting belong to the stream. Returns false
// if none comes until `end_ms`.
bool Hear(Channel& channel, int64_t end_ms, char& byte) {
  while (true) {
    iovec room{&byte, 1};
    const ssize_t got = channel.Receive({&room, 1});
    if (got > 0) return true;
    if (got == 0 || (errno != EINTR && errno != EAGAIN)) return false;
    pollfd ready{channel.fd(), POLLIN, 0};
    const int64_t left_ms = end_ms - SteadyMs();
    if (left_ms <= 0 || poll(&ready, 1, static_cast<int>(left_ms)) == 0) {
      errno = ETIMEDOUT;
      return false;
    }
  }
}

}  // namespace

bool GreetStream(Channel& channel, int64_t patience_ms, bool* silent, const std::string& token) {
  const std::string with = token.empty() ? "" : absl::StrCat(" ", token);
  if (!Say(channel, absl::StrCat(std::string(kName), with, "\n"))) return false;
  const int64_t end_ms = SteadyMs() + patience_ms;
  for (const char& expected : kGreeting) {
    char byte = 0;
    if (!Hear(channel, end_ms, byte)) {
      if (silent != nullptr) *silent = &expected == kGreeting.data() && errno == ETIMEDOUT;
      return false;
    }
    if (byte != expected) return false;
  }
  return true;
}

ClientGreeting::Step ClientGreeting::Receive(Channel& channel) {
  while (true) {
    char byte = 0;
    iovec room{&byte, 1};
    const ssize_t got = channel.Receive({&room, 1});
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Step::kMore;
    if (got <= 0) return Step::kGone;
    const size_t at = line_.size();
    if (byte == '\n' && at >= kName.size()) return Step::kWhole;
    if (at <= kName.size() && byte != (at < kName.size() ? kName[at] : ' ')) return Step::kBad;
    if (at > kName.size() + kGreetedTokenMax) return Step::kBad;
    line_ += byte;
  }
}

std::string_view ClientGreeting::token() const {
  return std::string_view(line_).substr(std::min(line_.size(), kName.size() + 1));
}

bool ClientGreeting::Answer(Channel& channel) { return Say(channel, std::string(kGreeting)); }

}  // namespace paracord
