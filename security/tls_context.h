// Makes OpenSSL contexts from PEM text, and reads identities from certificates. Reads no files. The
// system's clock decides about expiry, and OpenSSL keeps a queue of errors for each thread.
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

// Returns the distance of two times, whichever is earlier, in the largest unit that fits: "3
// minutes".
std::string Distance(int64_t unix_s, int64_t now_unix_s);

// Returns the facts of the first certificate in a PEM text. INVALID_ARGUMENT begins with `name`,
// the name of the text's file.
absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem, const std::string& name);
CertificateFacts FactsOf(const X509* certificate);
// Returns "spiffe://lab/ps/0, serial 1A" for people; without a URI the subject takes its place.
std::string CertificateName(const X509* certificate);

// The contents of the files for a context. A client's context needs neither chain nor key.
struct ContextSource {
  std::string chain_pem;
  std::string key_pem;
  std::string ca_pem;
  std::string crl_pem = {};  // revocation lists; may be empty
  // Names of the files, for errors.
  std::string chain_name;
  std::string key_name;
  std::string ca_name;
  std::string crl_name = {};
};

// The side of a connection that a context is for. kHttps: a server of pages by HTTP/1.1 over TLS.
enum class Side { kServer, kClient, kHttps };
// A server's context requires a client certificate, unless `peer_may_be_nobody`: then a certificate
// is optional for kServer, and is not asked for by kHttps. Errors name the file, but never quote
// it.
absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(Side side, const ContextSource& source,
                                                     bool peer_may_be_nobody);

// Returns for people why the context's authorities do not verify its own certificate, or "".
std::string OwnChainProblem(SSL_CTX* context);

// Whose signatures to accept. kOfContext: those of the context's authorities. kAny: anybody's, for
// a connection whose signatures were verified at its start.
enum class Authority { kOfContext, kAny };
// Returns for people why the context rejects a certificate with `chain` at present, or "".
std::string ChainProblem(SSL_CTX* context, X509* certificate, STACK_OF(X509) * chain,
                         Authority authority);

// Returns for people why the handshake of `ssl` refused the peer's certificate, with the name of
// the refused certificate, or "".
std::string RefusedCertificate(SSL* ssl);

// If the newest OpenSSL error of this thread is an alert of the peer about our certificate,
// returns a text such as "the peer says that the own certificate has expired"; else "".
std::string AlertOfOwnCertificate();

// Removes all OpenSSL errors of this thread and returns them as text.
std::string TakeOpenSslError();

// Explains an error of verification, an X509_V_ERR_... of OpenSSL.
std::string VerifyErrorText(long error);  // NOLINT(google-runtime-int): the type of OpenSSL's

}  // namespace paracord
