// Makes OpenSSL contexts from PEM text, and reads identities from certificates. Pure but for the
// clock that tells whether a certificate has expired.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

struct CertificateFacts {
  std::vector<std::string> uris;  // its subject alternative names that are URIs
  std::string serial;             // in hexadecimal
  int64_t begins_unix_s = 0;
  int64_t expires_unix_s = 0;
};

// How far a time is from now, with its largest unit: "3 minutes", whichever of both is later.
std::string Distance(int64_t unix_s, int64_t now_unix_s);

// Returns what a PEM text's first certificate says. INVALID_ARGUMENT begins with `name`.
absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem, const std::string& name);
CertificateFacts FactsOf(const X509* certificate);
// "spiffe://lab/ps/0, serial 1A", or with its subject where a certificate has no URI; for people.
std::string CertificateName(const X509* certificate);

struct ContextSource {
  std::string chain_pem;
  std::string key_pem;
  std::string ca_pem;
  std::string crl_pem = {};  // lists of revoked certificates; may be empty
  // The names of the files, for errors.
  std::string chain_name;
  std::string key_name;
  std::string ca_name;
  std::string crl_name = {};
};

// kHttps serves pages to who speaks HTTP/1.1 over TLS.
enum class Side { kServer, kClient, kHttps };
// A server's context asks for the client's certificate, and ends the handshake if there is none
// unless `peer_may_be_nobody`, where that of HTTPS asks for none. Errors name the file and never
// quote it.
absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(Side side, const ContextSource& source,
                                                     bool peer_may_be_nobody);

// Returns why the context's signers do not verify its own certificate; "" if they do. The subject
// of the sentence is the certificate.
std::string OwnChainProblem(SSL_CTX* context);

// Whose signature a certificate needs: that of an authority of the context, or anybody's, since an
// authority believed it when its connection began.
enum class Authority { kOfContext, kAny };
// Returns why the context does not believe a certificate, which came with `chain`, now; "" if it
// does. The subject of the sentence is the certificate.
std::string ChainProblem(SSL_CTX* context, X509* certificate, STACK_OF(X509) * chain,
                         Authority authority);

// Returns why the last verification during the handshake of `ssl` refused the peer's certificate,
// with who that is; "" if none did. The subject of the sentence is the certificate.
std::string RefusedCertificate(SSL* ssl);

// Returns what the peer's alert, the newest error that OpenSSL has kept for this thread, says of
// the own certificate, such as that it has expired; "" if that is no such alert.
std::string AlertOfOwnCertificate();

// Takes the errors that OpenSSL has kept for this thread, as one text.
std::string TakeOpenSslError();

// Explains the error of a verification, an X509_V_ERR_... of OpenSSL, of which the commonest is
// that another CA has signed the certificate. The subject of the sentence is the certificate.
std::string VerifyErrorText(long error);  // NOLINT(google-runtime-int): the type of OpenSSL's

}  // namespace paracord
