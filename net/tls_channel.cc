#include "net/tls_channel.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_ms.h"
#include "security/credentials.h"
#include "security/tls_context.h"

namespace paracord {
namespace {

constexpr size_t kTlsRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
// The peer decrypts these records while we encrypt the next; larger batches leave the peer idle.
constexpr size_t kSealAtOnce = 2 * kTlsRecordBytes;
constexpr size_t kReadAtOnce = 64 << 10;  // from the socket
constexpr size_t kHandshakeReadAtOnce = 4 << 10;
// Limits on a peer that only renews keys: bytes received without data, and bytes of answers owed.
// An honest peer renews keys rarely.
constexpr size_t kWithoutDataMax = 2 * kReadAtOnce;
constexpr size_t kAnswersMax = 4 * kTlsRecordBytes;
constexpr long kChainBytesMax = 32 << 10;  // NOLINT(google-runtime-int): the type of OpenSSL's
// AES with 128 bits is a third faster than with 256, which TLS would choose first.
constexpr char kCiphers[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

std::string Protocols() {
  return std::string(1, static_cast<char>(kStreamProtocol.size())) + std::string(kStreamProtocol);
}

// Turns off the TLS features unused by our connections, whatever the context allows.
bool Configure(SSL* ssl, TlsChannel::End end) {
  SSL_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_set_max_cert_list(ssl, kChainBytesMax);
  if (SSL_set_min_proto_version(ssl, TLS1_3_VERSION) != 1) return false;
  if (SSL_set_ciphersuites(ssl, kCiphers) != 1) return false;
  if (end == TlsChannel::End::kServer) {
    SSL_set_accept_state(ssl);
    return SSL_set_num_tickets(ssl, 0) == 1;
  }
  SSL_set_connect_state(ssl);
  const std::string protocols = Protocols();
  return SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(protocols.data()),
                             // Returns 0 on success, unlike other OpenSSL calls.
                             static_cast<unsigned>(protocols.size())) == 0;
}

}  // namespace

int TlsChannel::ReadFromChannel(BIO* bio, char* to, int size) {
  auto& channel = *static_cast<TlsChannel*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const size_t some = std::min(static_cast<size_t>(size), channel.in_end_ - channel.in_begin_);
  if (some == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  std::memcpy(to, channel.in_.data() + channel.in_begin_, some);
  channel.in_begin_ += some;
  return static_cast<int>(some);
}

int TlsChannel::WriteToChannel(BIO* bio, const char* from, int size) {
  static_cast<TlsChannel*>(BIO_get_data(bio))->out_.append(from, static_cast<size_t>(size));
  return size;
}

BIO* TlsChannel::MakeBio() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "channel");
    if (made == nullptr) return made;
    BIO_meth_set_read(made, &TlsChannel::ReadFromChannel);
    BIO_meth_set_write(made, &TlsChannel::WriteToChannel);
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) {  // NOLINT(google-runtime-int)
      return command == BIO_CTRL_FLUSH ? 1L : 0L;
    });
    return made;
  }();
  BIO* const bio = method == nullptr ? nullptr : BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  return bio;
}

TlsChannel::TlsChannel(int fd, SSL* ssl) : Channel(fd), ssl_(ssl) {}

TlsChannel::~TlsChannel() { SSL_free(ssl_); }

absl::StatusOr<std::unique_ptr<TlsChannel>> TlsChannel::Make(int fd, SSL_CTX* context, End end) {
  SSL* const ssl = SSL_new(context);
  std::unique_ptr<TlsChannel> channel(new TlsChannel(fd, ssl));  // owns the socket from here on
  BIO* const bio = ssl == nullptr ? nullptr : channel->MakeBio();
  if (bio == nullptr) return absl::ResourceExhaustedError("OpenSSL cannot make a connection");
  SSL_set_bio(ssl, bio, bio);
  if (!Configure(ssl, end)) return absl::InternalError("OpenSSL cannot do TLS 1.3");
  return channel;
}

// Receives records when in_ is empty; as recv.
ssize_t TlsChannel::Refill(size_t bytes_max) {
  if (in_.size() < bytes_max) in_.resize(bytes_max);
  ssize_t got = 0;
  do {
    got = recv(fd(), in_.data(), bytes_max, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  in_begin_ = 0;
  in_end_ = static_cast<size_t>(std::max<ssize_t>(got, 0));
  heard_ = heard_ || got > 0;
  return got;
}

// ---- the handshake

// The reason why the operation that returned `error` failed.
absl::Status TlsChannel::WhatIsWrong(int error) const {
  if (std::string refused = RefusedCertificate(ssl_); !refused.empty()) {
    return absl::UnauthenticatedError("its certificate: " + refused);
  }
  const unsigned long code = ERR_peek_last_error();  // NOLINT(google-runtime-int)
  if (error == SSL_ERROR_SSL && ERR_GET_REASON(code) != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    if (const std::string alert = AlertOfOwnCertificate(); !alert.empty()) {
      return absl::UnauthenticatedError(alert);
    }
    const char* const reason = ERR_reason_error_string(code);
    return absl::UnauthenticatedError(reason == nullptr ? "TLS fails" : reason);
  }
  return absl::UnavailableError(
      "the connection ended during the TLS handshake, as it does where one end's --tls-ca lacks "
      "the CA that signed the other's certificate");
}

absl::StatusOr<TlsChannel::Step> TlsChannel::Handshake() {
  while (true) {
    if (!Flush()) {
      if (errno != EAGAIN) return WhatIsWrong(SSL_ERROR_SYSCALL);
      return Step::kWrites;
    }
    ERR_clear_error();
    MutexLock lock(mu_);
    const int result = SSL_do_handshake(ssl_);
    const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_, result);
    sending_.swap(out_);
    if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ) {
      const absl::Status wrong = WhatIsWrong(error);
      (void)Flush();  // an alert tells the peer why
      return wrong;
    }
    if (!sending_.empty()) continue;
    if (error == SSL_ERROR_NONE) return CheckProtocol();
    const ssize_t got = Refill(kHandshakeReadAtOnce);
    if (got < 0 && errno == EAGAIN) return Step::kReads;
    if (got <= 0) return WhatIsWrong(SSL_ERROR_SYSCALL);
  }
}

absl::StatusOr<TlsChannel::Step> TlsChannel::CheckProtocol() const {
  if (SSL_is_server(ssl_) == 1) return Step::kDone;  // the context has chosen
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_, &protocol, &size);
  if (std::string_view(reinterpret_cast<const char*>(protocol), size) == kStreamProtocol) {
    return Step::kDone;
  }
  return absl::UnimplementedError(absl::StrCat("it does not speak ", std::string(kStreamProtocol)));
}

absl::Status TlsChannel::HandshakeWithin(int64_t patience_ms, bool* silent) {
  const int64_t end_ms = SteadyMs() + patience_ms;
  while (true) {
    const absl::StatusOr<Step> step = Handshake();
    if (!step.ok()) return step.status();
    if (*step == Step::kDone) return absl::OkStatus();
    pollfd ready{fd(), *step == Step::kReads ? short{POLLIN} : short{POLLOUT}, 0};
    const int64_t left_ms = end_ms - SteadyMs();
    if (left_ms > 0 && poll(&ready, 1, static_cast<int>(left_ms)) != 0) continue;
    if (silent != nullptr) *silent = !heard_;
    return absl::DeadlineExceededError(
        absl::StrCat("no TLS handshake within ", patience_ms, " ms"));
  }
}

// ---- receiving

ssize_t TlsChannel::Receive(std::span<iovec> room) {
  size_t received = 0;
  for (const iovec& piece : room) {
    for (size_t filled = 0; filled < piece.iov_len;) {
      size_t got = 0;
      MutexLock lock(mu_);
      ERR_clear_error();
      const int result = SSL_read_ex(ssl_, static_cast<char*>(piece.iov_base) + filled,
                                     piece.iov_len - filled, &got);
      filled += got;
      received += got;
      if (got > 0) without_data_ = 0;
      if (result == 1) continue;
      if (received > 0) return static_cast<ssize_t>(received);  // the next call sees the error
      const int error = SSL_get_error(ssl_, result);
      if (error == SSL_ERROR_ZERO_RETURN) return 0;
      if (error != SSL_ERROR_WANT_READ || without_data_ > kWithoutDataMax ||
          out_.size() > kAnswersMax) {
        errno = EPROTO;
        return -1;
      }
      const ssize_t more = Refill(kReadAtOnce);
      if (more <= 0) return more;
      without_data_ += static_cast<size_t>(more);
    }
  }
  return static_cast<ssize_t>(received);
}

// ---- sending

ssize_t TlsChannel::Send(std::span<iovec> pieces) {
  if (sealed_ == 0) {
    sealed_ = Seal(pieces);
    if (sealed_ == 0) {
      errno = EPROTO;
      return -1;
    }
  }
  if (!Flush()) return -1;
  return static_cast<ssize_t>(std::exchange(sealed_, 0));
}

bool TlsChannel::EndSending() {
  if (!ended_) {
    ended_ = true;
    ERR_clear_error();
    MutexLock lock(mu_);
    (void)SSL_shutdown(ssl_);  // 0: the peer has not ended its side, and need not
    sending_.append(out_);
    out_.clear();
  }
  return Flush() && shutdown(fd(), SHUT_WR) == 0;
}

// Encrypts the first of the pieces. Returns how many bytes; 0 if OpenSSL fails.
size_t TlsChannel::Seal(std::span<const iovec> pieces) {
  size_t sealed = 0;
  const auto write = [this](const char* bytes, size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (size_t done = 0, put = 0; done < size; done += put) {
      if (SSL_write_ex(ssl_, bytes + done, size - done, &put) != 1) return false;
    }
    return true;
  };
  ERR_clear_error();
  MutexLock lock(mu_);
  for (const iovec& piece : pieces) {
    const auto* from = static_cast<const char*>(piece.iov_base);
    size_t left = std::min(piece.iov_len, kSealAtOnce - sealed);
    sealed += left;
    while (left > 0) {
      // Whole records are encrypted from the caller's memory; smaller pieces are gathered into a
      // record.
      const bool whole = staging_.empty() && left >= kTlsRecordBytes;
      const size_t some = std::min(left, kTlsRecordBytes - staging_.size());
      if (whole) {
        if (!write(from, some)) return 0;
      } else {
        staging_.append(from, some);
      }
      if (staging_.size() == kTlsRecordBytes) {
        if (!write(staging_.data(), staging_.size())) return 0;
        staging_.clear();
      }
      from += some;
      left -= some;
    }
  }
  if (!staging_.empty() && !write(staging_.data(), staging_.size())) return 0;
  staging_.clear();
  sending_.swap(out_);  // empty: a new Send begins only after all records were sent
  return sealed;
}

// Sends the records. Returns false with errno if the socket does not take them all.
bool TlsChannel::Flush() {
  while (sent_ < sending_.size()) {
    const ssize_t put =
        send(fd(), sending_.data() + sent_, sending_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    sent_ += static_cast<size_t>(put);
  }
  sending_.clear();
  sent_ = 0;
  return true;
}

}  // namespace paracord
