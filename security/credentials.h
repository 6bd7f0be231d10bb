// The certificate, key, token and trusted authorities of this process, read from the files in
// SecurityOptions. When a caller asks for the keys, the files are read again, at most once a
// second, or ten times a second if clients show unknown tokens. New connections use the new keys,
// and existing connections keep the keys of their handshake. One thread at a time reads the files,
// without a lock. Other callers meanwhile get the old keys, so a hanging file system blocks one
// thread and not every listener. Files that do not match each other, as in the middle of a
// replacement, are ignored until they match. Shared by all listeners and links of a process;
// thread-safe. Never logs a key or token, or puts one into an error.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/mutex.h"
#include "common/steady_ms.h"
#include "security/peer_identity.h"
#include "security/security_options.h"

namespace paracord {

// Protocols that a client offers in its handshake (ALPN): gRPC, the streams of
// net/stream_connection.h, or HTTP/1.1 for pages. The server's TLS context selects one.
inline constexpr std::string_view kHttp2Protocol = "h2";
inline constexpr std::string_view kStreamProtocol = "paracord/1";
inline constexpr std::string_view kHttpsProtocol = "http/1.1";

// The certificate of a peer, kept so that it can be verified again during the connection.
class PeerCertificate {
 public:
  PeerCertificate() = default;  // no certificate
  explicit PeerCertificate(SSL* ssl);
  // From PEM text: the peer's certificate, then the rest of its chain.
  explicit PeerCertificate(const std::string& pem);

  bool shown() const { return certificate_ != nullptr; }
  // Returns "spiffe://lab/ps/0, serial 1A" for logs, or "" without a certificate.
  std::string Name() const;

 private:
  friend class Credentials;
  // Copies of this object, in a listener and its connections, share the certificate and the chain.
  std::shared_ptr<X509> certificate_;
  std::shared_ptr<STACK_OF(X509)> chain_;
  // The version of the keys with which ProblemOf last found no problem; 0: none. ProblemOf verifies
  // again with other keys, and after the certificate's expiry.
  mutable uint64_t believed_by_ = 0;
};

class Credentials {
 public:
  // A consistent, immutable set of the files' contents.
  struct Keys {
    uint64_t version = 0;   // grows by 1 with each reload that changes the contents
    std::string chain_pem;  // this process's certificate and its chain; empty: none
    std::string key_pem;
    std::string ca_pem;
    std::string crl_pem;              // empty without lists of revoked certificates
    std::string token;                // empty without a token file
    std::optional<PeerIdentity> own;  // nullopt without a certificate
    int64_t expires_unix_s = 0;       // expiry of the own certificate; 0 without one
    // Why peers that trust the same authorities (--tls-ca) reject the own certificate, with the
    // files' names; "" if they accept it. May be temporary, while an operator replaces files.
    std::string own_problem;
    // Contexts for handshakes with TLS 1.3 or later. Both sides verify the peer's chain during the
    // handshake. With a token file the server also admits clients without a certificate, which
    // must then show the token. Sessions are not resumed, so every connection is verified.
    std::shared_ptr<SSL_CTX> server;  // null without a certificate
    std::shared_ptr<SSL_CTX> client;
    // Serves pages with the own certificate. Asks for the reader's certificate only if the options
    // have http_clients. Null without a certificate.
    std::shared_ptr<SSL_CTX> https;
  };

  // Reads the files. Errors name the file: errors of Files, INVALID_ARGUMENT if the contents are
  // wrong, and UNAVAILABLE if the certificate has expired or belongs to another key. `files` must
  // outlive the credentials. The options must have TLS and have passed CheckSecurityOptions.
  static absl::StatusOr<std::shared_ptr<Credentials>> Load(
      const SecurityOptions& options, Files& files,
      std::function<int64_t()> now_ms = [] { return SteadyMs(); });

  std::shared_ptr<const Keys> Current();

  // Returns the peer's identity after a handshake. UNAUTHENTICATED if the peer has shown no
  // certificate, or one that is refused, has no identity, or is of another cluster.
  absl::StatusOr<PeerIdentity> PeerOf(SSL* ssl);
  // Returns OK if the peer may read pages, after a handshake with the `https` context; else
  // UNAUTHENTICATED or PERMISSION_DENIED.
  absl::Status CheckReader(SSL* ssl);
  // Returns the identity of a peer with these URIs in its verified certificate. UNAUTHENTICATED,
  // unless exactly one of them is an identity, and is of the own cluster.
  absl::StatusOr<PeerIdentity> PeerNamed(const std::vector<std::string>& uris);

  // Returns why an existing connection must end, such as that the peer's certificate, or one of its
  // chain, has expired or is revoked; else "". Removing an authority ends no connection, so that an
  // operator can replace authorities during training.
  std::string ProblemOf(const PeerCertificate& peer);

  // The further roles of workers' certificates, from the options.
  const NodeRights& nodes() const { return options_.nodes; }
  // Returns whether clients may show a token instead of a certificate.
  bool takes_token() const { return !options_.token_file.empty(); }
  // Returns whether `text` is the token. Compares in constant time. The token before a replacement
  // stays valid for five minutes, because processes reload the file at different times.
  bool IsToken(std::string_view text);

 private:
  Credentials(const SecurityOptions& options, Files& files, std::function<int64_t()> now_ms);
  absl::StatusOr<std::shared_ptr<Keys>> Read(const std::string& cluster) const;
  void Look(int64_t every_ms);
  void TakeKeys(absl::StatusOr<std::shared_ptr<Keys>> read, int64_t now_ms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsKnownToken(std::string_view text);

  const SecurityOptions options_;
  Files& files_;
  const std::function<int64_t()> now_ms_;
  Mutex mu_;
  std::string cluster_ ABSL_GUARDED_BY(mu_);  // the cluster that peers must be of; empty: any
  std::shared_ptr<const Keys> keys_ ABSL_GUARDED_BY(mu_);
  int64_t looked_ms_ ABSL_GUARDED_BY(mu_) = 0;     // when the files were last read
  bool looks_ ABSL_GUARDED_BY(mu_) = false;        // a thread is reading the files
  std::string last_problem_ ABSL_GUARDED_BY(mu_);  // why changed files were ignored
  std::string former_token_ ABSL_GUARDED_BY(mu_);
  int64_t former_until_ms_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace paracord
