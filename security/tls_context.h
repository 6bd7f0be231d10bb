// Makes OpenSSL contexts from PEM text, and reads identities from certificates. Reads no files; a
// clock decides about expiry, and OpenSSL keeps a queue of errors for each thread.
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

// Returns the distance of two times, whichever is earlier, in the largest unit: "3 minutes".
std::string Distance(int64_t unix_s, int64_t now_unix_s);

// Returns the facts of the first certificate in a PEM text. INVALID_ARGUMENT begins with `name`,
// the name of the text's file.
absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem, const std::string& name);
CertificateFacts FactsOf(const X509* certificate);
// Returns "spiffe://lab/ps/0, serial 1A" for people, with the subject if there is no URI.
std::string CertificateName(const X509* certificate);

// The contents of the files for a context.
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

// The end of a connection that a context is for. kHttps serves pages by HTTP/1.1 over TLS.
enum class Side { kServer, kClient, kHttps };
// A server's context requires a client certificate, unless `peer_may_be_nobody`: then kServer makes
// it optional, and kHttps asks for none. Errors name the file, but never quote it.
absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(Side side, const ContextSource& source,
                                                     bool peer_may_be_nobody);

// Returns why the context's authorities do not verify its own certificate, or "". The text is a
// sentence about the certificate.
std::string OwnChainProblem(SSL_CTX* context);

// Whose signatures to accept: only those of the context's authorities, or anybody's, for a
// connection whose signatures were verified at its start.
enum class Authority { kOfContext, kAny };
// Returns why the context rejects a certificate with `chain` at present, or "". The text is a
// sentence about the certificate.
std::string ChainProblem(SSL_CTX* context, X509* certificate, STACK_OF(X509) * chain,
                         Authority authority);

// Returns why the handshake of `ssl` refused the peer's certificate, with the peer's identity, or
// "". The text is a sentence about the certificate.
std::string RefusedCertificate(SSL* ssl);

// If the newest OpenSSL error of this thread is an alert of the peer about the own certificate,
// returns a text such as "the peer says that the own certificate has expired"; else "".
std::string AlertOfOwnCertificate();

// Removes all OpenSSL errors of this thread and returns them as text.
std::string TakeOpenSslError();

// Explains a verification error, an X509_V_ERR_... of OpenSSL; the commonest one is a signature of
// another CA. The text is a sentence about the certificate.
std::string VerifyErrorText(long error);  // NOLINT(google-runtime-int): the type of OpenSSL's

}  // namespace paracord
