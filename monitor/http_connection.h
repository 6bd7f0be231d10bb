// A connection of the HTTP server. With HTTPS the connection completes the handshake first. The
// connection then reads a request's head, waits for the answer, sends it, and reads on for at most
// a second: a client may have sent more than a head, and must still get the answer. Deadlines are
// times of SteadyMs(). Owned by the HttpServer, used on the server's thread.
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

  // Owns `fd`, a non-blocking socket. `https`: credentials to serve HTTPS with, which must outlive
  // the connection; null: HTTP in plain text. `deadline_ms`: the deadline of handshake and head
  // together.
  HttpConnection(uint64_t id, int fd, Credentials* https, int64_t deadline_ms);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  uint64_t id() const { return id_; }
  int fd() const { return channel_ == nullptr ? fd_ : channel_->fd(); }
  State state() const { return state_; }
  int64_t deadline_ms() const { return deadline_ms_; }
  short events() const;  // what to poll the socket for: POLLIN or POLLOUT

  // Continues the handshake, if one is under way. Returns false while the handshake lasts, or if
  // the connection is closed. A client that speaks no TLS, or may not read the pages, gets an
  // error.
  bool ShakeHands();
  // Reads available bytes. Returns the head once it is complete. A longer head than `bytes_max` is
  // answered with an error.
  std::optional<std::string> ReadHeadBytes(size_t bytes_max);
  void AwaitAnswer(int64_t deadline_ms);
  void Send(const HttpReply& reply, int64_t deadline_ms);
  // Continues to send the answer, or to read what the client sends after the head.
  void GoOn();
  // Called when the deadline has passed. Sends an error if a part of the head has come or the
  // answer is late; else closes.
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
  std::string peer_;                  // the peer's address, for the log; only with HTTPS
  std::unique_ptr<Channel> channel_;  // with HTTPS: null until the client's first byte
  TlsChannel* tls_ = nullptr;         // `channel_`, if it is a TLS channel; else null
  State state_;
  bool shake_sends_ = false;  // the handshake waits for POLLOUT
  int64_t deadline_ms_;
  std::string in_;
  std::string out_;
  size_t sent_ = 0;
  size_t lingered_bytes_ = 0;
};

}  // namespace paracord
