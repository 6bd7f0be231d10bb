#include "net/relayed_tls.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "security/tls_context.h"

namespace paracord {
namespace {

// The most bytes of one TLS record. OpenSSL keeps none that it has decrypted if the reader has room
// for all of them, so that polling the socket misses nothing.
constexpr size_t kRecordBytes = 16 << 10;

// Sets errno as recv and send do after a call of OpenSSL that returned `result`.
ssize_t FailedAs(SSL* ssl, int result) {
  switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    default:
      ERR_clear_error();
      errno = ECONNRESET;
      return -1;
  }
}

}  // namespace

Ssl BeginTls(int fd, const Credentials::Keys& keys) {
  ERR_clear_error();
  Ssl ssl(SSL_new(keys.server.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd) != 1) {
    ERR_clear_error();
    return nullptr;
  }
  SSL_set_accept_state(ssl.get());
  return ssl;
}

TlsStep ContinueTls(SSL* ssl, Credentials& credentials, RelayedPeer& peer, std::string& problem) {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl);
  if (result != 1) {
    const int error = SSL_get_error(ssl, result);
    if (error == SSL_ERROR_WANT_READ) return TlsStep::kReads;
    if (error == SSL_ERROR_WANT_WRITE) return TlsStep::kWrites;
    const long verified = SSL_get_verify_result(ssl);
    problem = verified == X509_V_OK ? TakeOpenSslError() : X509_verify_cert_error_string(verified);
    ERR_clear_error();
    return TlsStep::kFailed;
  }
  if (SSL_get0_peer_certificate(ssl) == nullptr && credentials.takes_token()) {
    peer.needs_token = true;
    return TlsStep::kDone;
  }
  const absl::StatusOr<PeerIdentity> identity = credentials.PeerOf(ssl);
  if (!identity.ok()) {
    problem = std::string(identity.status().message());
    return TlsStep::kFailed;
  }
  peer.access = Access(*identity);
  return TlsStep::kDone;
}

ssize_t ReceiveFrom(int fd, SSL* ssl, char* bytes, size_t bytes_max) {
  if (ssl == nullptr) return recv(fd, bytes, bytes_max, 0);
  ssize_t total = 0;
  while (bytes_max - static_cast<size_t>(total) >= kRecordBytes) {
    ERR_clear_error();
    const int got = SSL_read(ssl, bytes + total, static_cast<int>(kRecordBytes));
    if (got <= 0) return total > 0 ? total : FailedAs(ssl, got);
    total += got;
  }
  return total;
}

ssize_t SendTo(int fd, SSL* ssl, const char* bytes, size_t count) {
  if (ssl == nullptr) return send(fd, bytes, count, MSG_NOSIGNAL);
  ERR_clear_error();
  const int put = SSL_write(ssl, bytes, static_cast<int>(std::min<size_t>(count, INT_MAX)));
  if (put > 0) return put;
  const ssize_t failed = FailedAs(ssl, put);
  if (failed == 0) errno = ECONNRESET;
  return -1;
}

}  // namespace paracord
