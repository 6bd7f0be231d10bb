// One connection of the HTTP server: it reads a head, waits for the answer, sends it, and reads on
// for a moment so that the reply reaches a client that has sent more than a head. Each step has a
// deadline. Owned by the server, used on its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "monitor/http_message.h"

namespace paracord {

class HttpConnection {
 public:
  enum class State { kHead, kAnswering, kSending, kLingering, kClosed };

  // Owns `fd`, which does not block.
  HttpConnection(uint64_t id, int fd, int64_t deadline_ms)
      : id_(id), fd_(fd), deadline_ms_(deadline_ms) {}
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  uint64_t id() const { return id_; }
  int fd() const { return fd_; }
  State state() const { return state_; }
  int64_t deadline_ms() const { return deadline_ms_; }
  short events() const;  // that poll should wait for

  // Reads what is there. Returns the head once it is complete; one that is too long is refused.
  std::optional<std::string> ReadHeadBytes(size_t bytes_max);
  void AwaitAnswer(int64_t deadline_ms);
  void Send(const HttpReply& reply, int64_t deadline_ms);
  // Goes on with sending or lingering.
  void GoOn();
  // Its deadline has passed.
  void Expire(int64_t send_deadline_ms);
  void Close() { state_ = State::kClosed; }

 private:
  static constexpr size_t kLingerBytesMax = 1 << 20;
  static constexpr int64_t kLingerMs = 1000;

  const uint64_t id_;
  const int fd_;
  State state_ = State::kHead;
  int64_t deadline_ms_;
  std::string in_;
  std::string out_;
  size_t sent_ = 0;
  size_t lingered_bytes_ = 0;
};

}  // namespace paracord
