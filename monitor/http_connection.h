// A connection of the HTTP server. With HTTPS the connection completes the handshake first. It
// reads a request's head, waits for the answer, sends the answer, and drains the socket for a
// moment: a client may have sent more than a head, and must still get the reply. Each step has a
// deadline. Owned by the server, used on its thread.
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

  // Owns `fd`, which must not block. `https`: credentials to serve HTTPS with, which must
  // outlive the connection; null: plain text.
  HttpConnection(uint64_t id, int fd, Credentials* https, int64_t deadline_ms);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  uint64_t id() const { return id_; }
  int fd() const { return channel_ == nullptr ? fd_ : channel_->fd(); }
  State state() const { return state_; }
  int64_t deadline_ms() const { return deadline_ms_; }
  short events() const;  // the events to poll for

  // Continues the handshake. Returns false until it is complete. A client without TLS gets an
  // error.
  bool ShakeHands();
  // Reads available bytes. Returns the head once it is complete, and refuses a longer one.
  std::optional<std::string> ReadHeadBytes(size_t bytes_max);
  void AwaitAnswer(int64_t deadline_ms);
  void Send(const HttpReply& reply, int64_t deadline_ms);
  // Continues to send or to drain.
  void GoOn();
  // Called when the deadline has passed.
  void Expire(int64_t send_deadline_ms);
  void Close() { state_ = State::kClosed; }

 private:
  static constexpr size_t kLingerBytesMax = 1 << 20;
  static constexpr int64_t kLingerMs = 1000;

  void BeginHandshake();
  void SayRefused(const std::string& why) const;

  const uint64_t id_;
  Credentials* const https_;
  int fd_;                            // -1 once the channel owns it
  std::string peer_;                  // with HTTPS: the peer's address, for the log
  std::unique_ptr<Channel> channel_;  // with HTTPS null until the client's first byte
  TlsChannel* tls_ = nullptr;         // the channel if it is a TLS channel
  State state_;
  bool shake_sends_ = false;  // the handshake waits for POLLOUT
  int64_t deadline_ms_;
  std::string in_;
  std::string out_;
  size_t sent_ = 0;
  size_t lingered_bytes_ = 0;
};

}  // namespace paracord
