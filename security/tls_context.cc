#include "security/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "common/status_macros.h"
#include "security/credentials.h"

namespace paracord {
namespace {

template <auto kFree>
struct Freer {
  template <class T>
  void operator()(T* p) const {
    kFree(p);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

Bio Reading(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// No one can enter the passphrase of a daemon's key.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::Status Wrong(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(name, " ", what, ": ", TakeOpenSslError()));
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& pem,
                                                          const std::string& name) {
  ERR_clear_error();
  const Bio bio = Reading(pem);
  std::vector<Certificate> all;
  while (X509* const each = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    all.emplace_back(each);
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (all.empty() || !ended) return Wrong(name, "has no certificate in PEM that can be read");
  ERR_clear_error();
  return all;
}

absl::Status UseCertificate(SSL_CTX* context, const ContextSource& source) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                   ReadCertificates(source.chain_pem, source.chain_name));
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1) {
    return Wrong(source.chain_name, "has a certificate that cannot be used");
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
      return Wrong(source.chain_name, "has a chain that cannot be used");
    }
  }
  const Bio bio = Reading(source.key_pem);
  const PrivateKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return Wrong(source.key_name, "has no private key in PEM that can be read without passphrase");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    // Certificate and key may just be in the middle of a replacement.
    return absl::UnavailableError(
        Wrong(source.key_name, absl::StrCat("is not the key of ", source.chain_name)).message());
  }
  return absl::OkStatus();
}

int64_t UnixSeconds(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

std::string Verdict(long error, const X509* certificate) {  // NOLINT(google-runtime-int)
  const CertificateFacts facts = FactsOf(certificate);
  const int64_t now_s = std::time(nullptr);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrCat("expired ", Distance(facts.expires_unix_s, now_s), " ago");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat("is not valid for another ", Distance(facts.begins_unix_s, now_s),
                          ": see whether the clocks agree");
    case X509_V_ERR_CERT_REVOKED:
      return "is revoked by --tls-crl";
    default:
      return "";
  }
}

std::string WhyRefused(X509_STORE_CTX* check) {
  const int error = X509_STORE_CTX_get_error(check);
  X509* const certificate = X509_STORE_CTX_get_current_cert(check);
  if (certificate == nullptr) return VerifyErrorText(error);
  const std::string verdict = Verdict(error, certificate);
  const bool of_ca = X509_STORE_CTX_get_error_depth(check) > 0;
  return absl::StrCat(
      verdict.empty() ? VerifyErrorText(error) : absl::StrCat(of_ca ? "its CA " : "it ", verdict),
      " (", CertificateName(certificate), ")");
}

// Index of a connection's reason for refusing its peer's certificate.
int RefusedIndex() {
  static const int index = SSL_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* kept, CRYPTO_EX_DATA*, int, long, void*) {  // NOLINT(google-runtime-int)
        delete static_cast<std::string*>(kept);
      });
  return index;
}

// Returns whether a certificate is refused because of its issuer.
bool IsOfAuthority(long error) {  // NOLINT(google-runtime-int)
  switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return true;
    default:
      return false;
  }
}

// Revocation lists only take trust away. A missing or expired list revokes nothing.
bool IsOfLists(int error) {
  return error == X509_V_ERR_UNABLE_TO_GET_CRL || error == X509_V_ERR_CRL_HAS_EXPIRED;
}

// Called by OpenSSL for each certificate of a chain. Returning 1 accepts the certificate.
int Verified(int ok, X509_STORE_CTX* check) {
  if (ok == 1) return 1;
  if (IsOfLists(X509_STORE_CTX_get_error(check))) {
    X509_STORE_CTX_set_error(check, X509_V_OK);
    return 1;
  }
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(check, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (ssl == nullptr) return 0;
  auto* const kept = static_cast<std::string*>(SSL_get_ex_data(ssl, RefusedIndex()));
  if (kept != nullptr) {
    *kept = WhyRefused(check);
  } else {
    auto said = std::make_unique<std::string>(WhyRefused(check));
    if (SSL_set_ex_data(ssl, RefusedIndex(), said.get()) == 1) (void)said.release();
  }
  return 0;
}

// Like Verified, but accepts any issuer.
int VerifiedByAny(int ok, X509_STORE_CTX* check) {
  if (ok == 1 || !IsOfAuthority(X509_STORE_CTX_get_error(check))) return Verified(ok, check);
  X509_STORE_CTX_set_error(check, X509_V_OK);
  return 1;
}

absl::Status UseRevoked(X509_STORE* store, const ContextSource& source) {
  if (source.crl_pem.empty()) return absl::OkStatus();
  ERR_clear_error();
  const Bio bio = Reading(source.crl_pem);
  int lists = 0;
  while (X509_CRL* const each = PEM_read_bio_X509_CRL(bio.get(), nullptr, NoPassphrase, nullptr)) {
    const bool added = X509_STORE_add_crl(store, each) == 1;
    X509_CRL_free(each);
    if (!added) return Wrong(source.crl_name, "has a list that cannot be used");
    ++lists;
  }
  if (lists == 0 || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return Wrong(source.crl_name, "has no list of revoked certificates in PEM that can be read");
  }
  ERR_clear_error();
  if (X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) == 1) return absl::OkStatus();
  return Wrong(source.crl_name, "cannot be looked at");
}

// Arguments of OpenSSL's ALPN callback: the client's protocols, and where to put the choice.
struct Offered {
  const unsigned char* in;
  unsigned int in_size;
  const unsigned char** out;
  unsigned char* out_size;
};

// Chooses the protocol `wanted`. Returns false if the client does not offer it.
bool Choose(const Offered& by, std::string_view wanted) {
  const std::string_view offered(reinterpret_cast<const char*>(by.in), by.in_size);
  for (size_t at = 0; at < offered.size();) {
    const size_t size = static_cast<unsigned char>(offered[at]);
    if (offered.substr(at + 1, size) == wanted) {
      *by.out = by.in + at + 1;
      *by.out_size = static_cast<unsigned char>(size);
      return true;
    }
    at += 1 + size;
  }
  return false;
}

// Prefers streams, because only our clients offer them. Falls back to HTTP/2 if the client offers
// neither protocol.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* in, unsigned int in_size, void*) {
  const Offered offered{in, in_size, out, out_size};
  const bool chosen = Choose(offered, kStreamProtocol) || Choose(offered, kHttp2Protocol);
  return chosen ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

// Refuses a client that offers protocols without HTTP/1.1.
int SelectHttps(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                unsigned int in_size, void*) {
  const bool chosen = Choose({in, in_size, out, out_size}, kHttpsProtocol);
  return chosen ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

std::string TakeOpenSslError() {
  std::string text;
  while (const unsigned long error = ERR_get_error()) {
    const char* const reason = ERR_reason_error_string(error);
    if (reason != nullptr) absl::StrAppend(&text, text.empty() ? "" : ", ", reason);
  }
  return text.empty() ? "OpenSSL gives no reason" : text;
}

std::string VerifyErrorText(long error) {  // NOLINT(google-runtime-int)
  const std::string reason = X509_verify_cert_error_string(error);
  if (!IsOfAuthority(error)) return reason;
  return absl::StrCat("it is signed by another CA than those of --tls-ca (", reason, ")");
}

std::string Distance(int64_t unix_s, int64_t now_unix_s) {
  const int64_t apart_s = std::max(unix_s, now_unix_s) - std::min(unix_s, now_unix_s);
  constexpr std::pair<int64_t, std::string_view> kUnits[] = {
      {24 * 3600, " day"}, {3600, " hour"}, {60, " minute"}, {1, " second"}};
  for (const auto& [seconds, unit] : kUnits) {
    const int64_t count = apart_s / seconds;
    if (count > 0 || seconds == 1) {
      return absl::StrCat(count, std::string(unit), count == 1 ? "" : "s");
    }
  }
  return "";
}

std::string ChainProblem(SSL_CTX* context, X509* certificate, STACK_OF(X509) * chain,
                         Authority authority) {
  const std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>> check(X509_STORE_CTX_new());
  if (check == nullptr ||
      X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context), certificate, chain) != 1) {
    return "it cannot be verified: " + TakeOpenSslError();
  }
  X509_STORE_CTX_set_verify_cb(check.get(),
                               authority == Authority::kAny ? VerifiedByAny : Verified);
  const bool verified = X509_verify_cert(check.get()) == 1;
  ERR_clear_error();
  return verified ? "" : WhyRefused(check.get());
}

std::string OwnChainProblem(SSL_CTX* context) {
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context, &chain);
  return ChainProblem(context, SSL_CTX_get0_certificate(context), chain, Authority::kOfContext);
}

std::string RefusedCertificate(SSL* ssl) {
  const auto* const kept = static_cast<std::string*>(SSL_get_ex_data(ssl, RefusedIndex()));
  return kept == nullptr ? "" : *kept;
}

std::string AlertOfOwnCertificate() {
  const unsigned long code = ERR_peek_last_error();  // NOLINT(google-runtime-int)
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return "";
  switch (ERR_GET_REASON(code)) {
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "the peer says that the own certificate has expired: replace it, or see whether the "
             "clocks agree";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      return "the peer says that the own certificate is revoked (its --tls-crl)";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return "the peer asks for a certificate: give --tls-cert and --tls-key";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return absl::StrCat("to its --tls-ca the own certificate is signed by another CA (",
                          ERR_reason_error_string(code), ")");
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return absl::StrCat("the peer refuses the own certificate (", ERR_reason_error_string(code),
                          "): its log says why");
    default:
      return "";
  }
}

CertificateFacts FactsOf(const X509* certificate) {
  CertificateFacts facts;
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* const uri = name->d.uniformResourceIdentifier;
    facts.uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                            static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  GENERAL_NAMES_free(names);
  facts.begins_unix_s = UnixSeconds(X509_get0_notBefore(certificate));
  facts.expires_unix_s = UnixSeconds(X509_get0_notAfter(certificate));
  BIGNUM* const serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* const digits = serial == nullptr ? nullptr : BN_bn2hex(serial);
  facts.serial = digits == nullptr ? "" : digits;
  OPENSSL_free(digits);
  BN_free(serial);
  return facts;
}

std::string CertificateName(const X509* certificate) {
  constexpr size_t kNameMax = 200;
  const CertificateFacts facts = FactsOf(certificate);
  std::string name = facts.uris.empty() ? "" : facts.uris[0];
  if (name.empty()) {
    char subject[kNameMax] = "";
    X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof subject);
    name = subject;
  }
  return absl::StrCat(OneLine(name, kNameMax), ", serial ", facts.serial);
}

absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain, ReadCertificates(pem, name));
  return FactsOf(chain[0].get());
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(Side side, const ContextSource& source,
                                                     bool peer_may_be_nobody) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(
      SSL_CTX_new(side == Side::kClient ? TLS_client_method() : TLS_server_method()), SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) {
    return absl::ResourceExhaustedError("no TLS context: " + TakeOpenSslError());
  }
  if (!source.chain_pem.empty()) RETURN_IF_ERROR(UseCertificate(context.get(), source));
  ASSIGN_OR_RETURN(const std::vector<Certificate> signers,
                   ReadCertificates(source.ca_pem, source.ca_name));
  X509_STORE* const store = SSL_CTX_get_cert_store(context.get());
  for (const Certificate& signer : signers) {
    if (X509_STORE_add_cert(store, signer.get()) != 1) {
      return Wrong(source.ca_name, "has a certificate that cannot be used");
    }
  }
  RETURN_IF_ERROR(UseRevoked(store, source));
  const bool asks_nobody = side == Side::kHttps && peer_may_be_nobody;
  int verify = asks_nobody ? SSL_VERIFY_NONE : SSL_VERIFY_PEER;
  if (!peer_may_be_nobody) verify |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  SSL_CTX_set_verify(context.get(), verify, Verified);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (side == Side::kServer) SSL_CTX_set_alpn_select_cb(context.get(), SelectProtocol, nullptr);
  if (side == Side::kHttps) SSL_CTX_set_alpn_select_cb(context.get(), SelectHttps, nullptr);
  return context;
}

}  // namespace paracord
