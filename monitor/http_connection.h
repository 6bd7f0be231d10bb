// One connection of the HTTP server: it shakes hands if it is of HTTPS, reads a head, waits for the
// answer, sends it, and reads on for a moment so that the reply reaches a client that has sent more
// than a head. Each step has a deadline. Owned by the server, used on its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "monitor/http_message.h"
#include "net/channel.h"
#include "net/tls_channel.h"
#include "security/credentials.h"

namespace paracord {

class HttpConnection {
 public:
  enum class State { kHandshake, kHead, kAnswering, kSending, kLingering, kClosed };

  // Owns `fd`, which does not block. It speaks HTTPS with the certificate of `https`, which must
  // outlive it; null: plain text.
  HttpConnection(uint64_t id, int fd, Credentials* https, int64_t deadline_ms);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  uint64_t id() const { return id_; }
  int fd() const { return channel_ == nullptr ? fd_ : channel_->fd(); }
  State state() const { return state_; }
  int64_t deadline_ms() const { return deadline_ms_; }
  short events() const;  // that poll should wait for

  // Goes on with the handshake. Returns false while that is not done. Who speaks no TLS is told so.
  bool ShakeHands();
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

  void BeginHandshake();
  void SayRefused(const std::string& why) const;

  const uint64_t id_;
  Credentials* const https_;
  int fd_;                            // -1 when the channel has it
  std::string peer_;                  // for the log, with HTTPS
  std::unique_ptr<Channel> channel_;  // null until the client's first byte, with HTTPS
  TlsChannel* tls_ = nullptr;         // the channel, if it is one of TLS
  State state_;
  bool shake_sends_ = false;  // the handshake waits until it can send
  int64_t deadline_ms_;
  std::string in_;
  std::string out_;
  size_t sent_ = 0;
  size_t lingered_bytes_ = 0;
};

}  // namespace paracord
