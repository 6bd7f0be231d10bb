// The certificate, key, token and trusted signers of this process, read from the files that
// SecurityOptions name. A file that has changed is read again, at most once a second, when somebody
// asks for the keys: a connection that begins then uses the new ones, and connections that exist
// keep theirs. One thread reads the files, without a lock; others that ask meanwhile get the keys
// as they were, so that a file system that hangs keeps one thread and not every listener. Files
// that do not fit together, as while they are being replaced, are left alone until they do. Shared
// by all listeners and links of a process; thread-safe. It never logs or returns in an error what a
// key or a token says.
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

// The protocols that a client names in its handshake (ALPN), of which the server's context selects
// one: gRPC, or the streams of net/stream_connection.h; or, where it serves pages, HTTP/1.1.
inline constexpr std::string_view kHttp2Protocol = "h2";
inline constexpr std::string_view kStreamProtocol = "paracord/1";
inline constexpr std::string_view kHttpsProtocol = "http/1.1";

// The certificate that a peer has shown, kept to be verified again while its connection lasts.
class PeerCertificate {
 public:
  PeerCertificate() = default;  // none
  explicit PeerCertificate(SSL* ssl);
  // As PEM text: the certificate first, and then the others of its chain.
  explicit PeerCertificate(const std::string& pem);

  bool shown() const { return certificate_ != nullptr; }
  // "spiffe://lab/ps/0, serial 1A", for logs; "" without one.
  std::string Name() const;

 private:
  friend class Credentials;
  // Shared, because a listener and its connections look at one certificate.
  std::shared_ptr<X509> certificate_;
  std::shared_ptr<STACK_OF(X509)> chain_;
  // The version of the keys that believe it, which they do until it expires; 0: none has yet.
  mutable uint64_t believed_by_ = 0;
};

class Credentials {
 public:
  // Keys are what the files said together at one time; they never change.
  struct Keys {
    uint64_t version = 0;   // grows with every change of a file
    std::string chain_pem;  // empty without a certificate, as key_pem
    std::string key_pem;
    std::string ca_pem;
    std::string crl_pem;              // empty without lists of revoked certificates
    std::string token;                // empty without a token file
    std::optional<PeerIdentity> own;  // nullopt without a certificate
    int64_t expires_unix_s = 0;       // of the own certificate
    // Why no peer with the same --tls-ca believes the own certificate, as a line that names the
    // files; empty if it does. Files that are replaced one by one may be so for a while.
    std::string own_problem;
    // Contexts for handshakes, TLS 1.3 and later. Server and client verify the peer's chain during
    // the handshake; the server's lets a client without a certificate in only if there is a token,
    // which the client then has to show. Sessions are not resumed, so that every connection is
    // verified.
    std::shared_ptr<SSL_CTX> server;  // null without a certificate
    std::shared_ptr<SSL_CTX> client;
    // Proves the own name to who reads pages, and asks for theirs only if the options have
    // http_clients; null as `server`.
    std::shared_ptr<SSL_CTX> https;
  };

  // Reads the files. INVALID_ARGUMENT, or the error of the file system, names the file. `files`
  // must outlive the credentials. The options must have passed CheckSecurityOptions, with TLS.
  static absl::StatusOr<std::shared_ptr<Credentials>> Load(
      const SecurityOptions& options, Files& files,
      std::function<int64_t()> now_ms = [] { return SteadyMs(); });

  std::shared_ptr<const Keys> Current();

  // Returns who the peer is after a handshake with one of the contexts; UNAUTHENTICATED if it has
  // shown no certificate, or one of another cluster or without an identity.
  absl::StatusOr<PeerIdentity> PeerOf(SSL* ssl);
  // Whether who reads pages over HTTPS may do so, after a handshake with that context.
  absl::Status CheckReader(SSL* ssl);
  // Returns who a peer is whose verified certificate has these URIs.
  absl::StatusOr<PeerIdentity> PeerNamed(const std::vector<std::string>& uris);

  // Returns why a connection that exists has to end: the peer's certificate has expired meanwhile,
  // or is revoked; "" if neither. The subject of the sentence is the certificate. An authority that
  // is believed no more ends no connection, so that authorities are replaced while a job trains.
  std::string ProblemOf(const PeerCertificate& peer);

  // What the certificates of workers stand for besides.
  const NodeRights& nodes() const { return options_.nodes; }
  // True if a client may show the token instead of a certificate.
  bool takes_token() const { return !options_.token_file.empty(); }
  // Compares in constant time. A token that was replaced counts for a while, because processes do
  // not read the new one at once.
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
  std::string cluster_ ABSL_GUARDED_BY(mu_);  // of peers; empty: any
  std::shared_ptr<const Keys> keys_ ABSL_GUARDED_BY(mu_);
  int64_t looked_ms_ ABSL_GUARDED_BY(mu_) = 0;
  bool looks_ ABSL_GUARDED_BY(mu_) = false;        // some thread reads the files now
  std::string last_problem_ ABSL_GUARDED_BY(mu_);  // why the files were left alone
  std::string former_token_ ABSL_GUARDED_BY(mu_);
  int64_t former_until_ms_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace paracord
