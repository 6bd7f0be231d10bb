// Certificates for tests, as PEM text: a CA and certificates signed by it. OpenSSL's functions fail
// here only for lack of memory.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <utility>

#include "security/security_options.h"
#include "tests/fakes.h"

namespace paracord {

struct PemPair {
  std::string cert;
  std::string key;
};

class TestCa {
 public:
  explicit TestCa(const std::string& name) : key_(NewKey()), cert_(NewCertificate(key_.get())) {
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert_.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    Sign(cert_.get(), "critical,CA:TRUE", "", 3600);
  }

  // `names`: the value of subjectAltName=, such as "URI:spiffe://lab/ps/0", or "".
  PemPair Issue(const std::string& names, int64_t seconds = 3600) const {
    const Key key = NewKey();
    const Certificate cert = NewCertificate(key.get());
    Sign(cert.get(), "critical,CA:FALSE", names, seconds);
    return {PemOf(cert.get()), PemOf(key.get())};
  }
  std::string pem() const { return PemOf(cert_.get()); }
  // Returns a revocation list with the certificate `pair`, as PEM text.
  std::string Revoking(const PemPair& pair) const {
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(
        BIO_new_mem_buf(pair.cert.data(), static_cast<int>(pair.cert.size())), BIO_free_all);
    const Certificate cert(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
    const std::unique_ptr<X509_CRL, decltype(&X509_CRL_free)> list(X509_CRL_new(), X509_CRL_free);
    const std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)> at(X509_gmtime_adj(nullptr, -60),
                                                                   ASN1_TIME_free);
    X509_CRL_set_version(list.get(), 1);
    X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(cert_.get()));
    X509_CRL_set1_lastUpdate(list.get(), at.get());
    X509_CRL_set1_nextUpdate(list.get(), at.get());  // an expired list still revokes
    X509_REVOKED* const revoked = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(revoked, X509_get_serialNumber(cert.get()));
    X509_REVOKED_set_revocationDate(revoked, at.get());
    X509_CRL_add0_revoked(list.get(), revoked);
    X509_CRL_sign(list.get(), key_.get(), EVP_sha256());
    return PemBy([&](BIO* to) { PEM_write_bio_X509_CRL(to, list.get()); });
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  static Key NewKey() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }
  static Certificate NewCertificate(EVP_PKEY* key) {
    static int64_t serial = 0;
    Certificate cert(X509_new(), X509_free);
    X509_set_version(cert.get(), 2);
    ASN1_INTEGER_set_int64(X509_get_serialNumber(cert.get()), ++serial);
    X509_set_pubkey(cert.get(), key);
    return cert;
  }
  static void Extend(X509* cert, int nid, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
  }
  void Sign(X509* cert, const std::string& constraints, const std::string& names,
            int64_t seconds) const {
    X509_gmtime_adj(X509_getm_notBefore(cert), -7200);
    X509_gmtime_adj(X509_getm_notAfter(cert), seconds);
    X509_set_issuer_name(cert, X509_get_subject_name(cert_.get()));
    Extend(cert, NID_basic_constraints, constraints);
    if (!names.empty()) Extend(cert, NID_subject_alt_name, names);
    X509_sign(cert, key_.get(), EVP_sha256());
  }
  template <class Write>
  static std::string PemBy(Write write) {
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new(BIO_s_mem()), BIO_free_all);
    write(bio.get());
    const char* text = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &text);
    return {text, static_cast<size_t>(size)};
  }
  static std::string PemOf(X509* cert) {
    return PemBy([&](BIO* to) { PEM_write_bio_X509(to, cert); });
  }
  static std::string PemOf(EVP_PKEY* key) {
    return PemBy(
        [&](BIO* to) { PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
  }

  const Key key_;
  const Certificate cert_;
};

// The files of a process, in a temporary directory.
class TestKeys {
 public:
  TestKeys(const std::string& ca, const PemPair& pair) {
    Write("ca.crt", ca);
    Put(pair);
  }
  void Put(const PemPair& pair) const {
    Write("task.crt", pair.cert);
    Write("task.key", pair.key);
  }
  void Write(const std::string& name, const std::string& text) const {
    directory_.Write(name, text);
  }
  std::string Path(const std::string& name) const { return directory_ / name; }
  SecurityOptions options() const {
    return {.cert = Path("task.crt"),
            .key = Path("task.key"),
            .ca = Path("ca.crt"),
            .token_file = {},
            .cluster = {}};
  }

 private:
  const TestDirectory directory_;
};

}  // namespace paracord
