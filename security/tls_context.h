// Makes OpenSSL contexts from PEM text, and reads identities from certificates. Pure, except for
// the clock that decides about expiry.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

struct CertificateFacts {
  std::vector<std::string> uris;  // subject alternative names that are URIs
  std::string serial;             // hexadecimal
  int64_t begins_unix_s = 0;
  int64_t expires_unix_s = 0;
};

// Returns the distance of two times in the largest unit, such as "3 minutes", regardless of order.
std::string Distance(int64_t unix_s, int64_t now_unix_s);

// Returns the facts of the first certificate in a PEM text. INVALID_ARGUMENT begins with `name`.
absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem, const std::string& name);
CertificateFacts FactsOf(const X509* certificate);
// Returns "spiffe://lab/ps/0, serial 1A" for people, or the subject if there is no URI.
std::string CertificateName(const X509* certificate);

struct ContextSource {
  std::string chain_pem;
  std::string key_pem;
  std::string ca_pem;
  std::string crl_pem = {};  // revocation lists; may be empty
  // File names, for errors.
  std::string chain_name;
  std::string key_name;
  std::string ca_name;
  std::string crl_name = {};
};

// kHttps serves pages by HTTP/1.1 over TLS.
enum class Side { kServer, kClient, kHttps };
// A server's context requires a client certificate, unless `peer_may_be_nobody`. With
// `peer_may_be_nobody`, an HTTPS context asks for none. Errors name the file, but never quote it.
absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(Side side, const ContextSource& source,
                                                     bool peer_may_be_nobody);

// Returns why the context's authorities do not verify its own certificate, or "". The certificate
// is the subject of the sentence.
std::string OwnChainProblem(SSL_CTX* context);

// Whose signature to accept: only authorities of the context, or anybody's for a connection that
// was verified at its start.
enum class Authority { kOfContext, kAny };
// Returns why the context rejects a certificate with `chain` at present, or "". The certificate is
// the subject of the sentence.
std::string ChainProblem(SSL_CTX* context, X509* certificate, STACK_OF(X509) * chain,
                         Authority authority);

// Returns why the handshake of `ssl` refused the peer's certificate, with the peer's identity, or
// "". The certificate is the subject of the sentence.
std::string RefusedCertificate(SSL* ssl);

// Returns the complaint about the own certificate in the peer's alert, such as "has expired", or
// "". Reads the newest OpenSSL error of this thread.
std::string AlertOfOwnCertificate();

// Removes all OpenSSL errors of this thread and returns them as text.
std::string TakeOpenSslError();

// Explains a verification error, an X509_V_ERR_... of OpenSSL. The commonest cause is a signature
// of another CA. The certificate is the subject of the sentence.
std::string VerifyErrorText(long error);  // NOLINT(google-runtime-int): the type of OpenSSL's

}  // namespace paracord
