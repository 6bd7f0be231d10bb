// TLS on the serving side of a socket that does not block: the handshake, which says who the peer
// is, and then bytes. A connection is used by one thread at a time.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

#include "net/relayed_peers.h"
#include "security/credentials.h"

namespace paracord {

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using Ssl = std::unique_ptr<SSL, SslFree>;

// Begins TLS on a socket that a client has connected to. Returns null if there is no memory.
Ssl BeginTls(int fd, const Credentials::Keys& keys);

enum class TlsStep { kDone, kReads, kWrites, kFailed };
// Takes the handshake as far as the peer's bytes and the socket's room allow. When it is done,
// `peer` says who it is. On failure `problem` says why.
TlsStep ContinueTls(SSL* ssl, Credentials& credentials, RelayedPeer& peer, std::string& problem);

// These are recv and send, with TLS on the socket if `ssl` is not null: errno is EAGAIN where the
// call would block. Nothing that has been decrypted is left behind if there was room for 16 KiB.
ssize_t ReceiveFrom(int fd, SSL* ssl, char* bytes, size_t bytes_max);
ssize_t SendTo(int fd, SSL* ssl, const char* bytes, size_t count);

}  // namespace paracord
