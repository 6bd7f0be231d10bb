// A connected stream socket under TLS 1.3 (OpenSSL). One system call may carry several records, in
// each direction. Renegotiation, resumption and early data are off: every connection verifies
// certificates anew. Threads as in net/channel.h.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "net/channel.h"

namespace paracord {

class TlsChannel : public Channel {
 public:
  enum class End { kClient, kServer };

  // Takes ownership of `fd`, which is connected and non-blocking, even if Make fails. `context`
  // holds this end's certificate, the trusted authorities and, on a server, the accepted protocols
  // (ALPN); the channel keeps the context alive. A client offers kStreamProtocol alone.
  static absl::StatusOr<std::unique_ptr<TlsChannel>> Make(int fd, SSL_CTX* context, End end);
  ~TlsChannel() override;

  enum class Step { kDone, kReads, kWrites };
  // Continues the handshake, without waiting. The caller calls again when the socket is readable
  // (kReads) or writable (kWrites), until kDone or an error, which says what is wrong. Send and
  // Receive must not be called before kDone.
  absl::StatusOr<Step> Handshake();
  // Does the whole handshake. Returns DEADLINE_EXCEEDED after `patience_ms`; `*silent` then says
  // whether the peer has sent nothing.
  absl::Status HandshakeWithin(int64_t patience_ms, bool* silent = nullptr);

  // The connection, for reading the peer's certificate after the handshake.
  SSL* ssl() const { return ssl_; }
  // True if the peer has shown a certificate. Called after the handshake.
  bool shows_certificate() const { return SSL_get0_peer_certificate(ssl_) != nullptr; }

  ssize_t Receive(std::span<iovec> room) override;
  ssize_t Send(std::span<iovec> pieces) override;
  bool EndSending() override;

 private:
  TlsChannel(int fd, SSL* ssl);
  BIO* MakeBio();
  static int ReadFromChannel(BIO* bio, char* to, int size);
  static int WriteToChannel(BIO* bio, const char* from, int size);
  absl::StatusOr<Step> CheckProtocol() const;
  ssize_t Refill(size_t bytes_max);
  bool Flush();
  size_t Seal(std::span<const iovec> pieces);
  absl::Status WhatIsWrong(int error) const;

  SSL* const ssl_;
  bool heard_ = false;  // bytes have come from the peer
  // State of the sending thread.
  std::string sending_;  // records, of which the first sent_ bytes have been sent
  size_t sent_ = 0;
  size_t sealed_ = 0;    // bytes of data that sending_ holds encrypted, not yet reported as sent
  std::string staging_;  // small pieces that share a record
  bool ended_ = false;   // nothing more is sent

  // OpenSSL lets one thread at a time use a connection: mu_ is held while ssl_ encrypts, decrypts
  // or shakes hands, and guards the members below.
  Mutex mu_;
  std::vector<char> in_;  // received records: [in_begin_, in_end_)
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  size_t without_data_ = 0;  // bytes received since the last byte of data
  std::string out_;          // records made by OpenSSL since sending_ was filled
};

}  // namespace paracord
