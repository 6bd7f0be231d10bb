#include "bench_keys.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace paracord::bench {
namespace {

template <class Write>
void WritePem(const std::string& path, Write write) {
  if (FILE* const file = std::fopen(path.c_str(), "w"); file != nullptr) {
    write(file);
    std::fclose(file);
  }
}

}  // namespace

BenchKeys::BenchKeys() : key_(EVP_EC_gen("P-256"), EVP_PKEY_free) {
  directory_ = "/tmp/paracord-bench-keys-XXXXXX";
  if (mkdtemp(directory_.data()) == nullptr) return;
  const Certificate ca = Sign(key_.get(), "critical,CA:TRUE", "");
  WritePem(Path("ca.crt"), [&](FILE* to) { PEM_write_X509(to, ca.get()); });
  std::ofstream(Path("token")) << "a-token-of-the-benchmark";
}

BenchKeys::~BenchKeys() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

BenchKeys::Certificate BenchKeys::Sign(EVP_PKEY* key, const std::string& constraints,
                                       const std::string& names) const {
  static int64_t serial = 0;
  Certificate made(X509_new(), X509_free);
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set_int64(X509_get_serialNumber(made.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 24 * 3600);
  X509_set_pubkey(made.get(), key);
  X509_NAME* const name = X509_NAME_new();
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("benchmark"), -1, -1, 0);
  X509_set_issuer_name(made.get(), name);
  if (names.empty()) X509_set_subject_name(made.get(), name);
  X509_NAME_free(name);
  const auto extend = [&](int nid, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    X509_add_ext(made.get(), extension, -1);
    X509_EXTENSION_free(extension);
  };
  extend(NID_basic_constraints, constraints);
  if (!names.empty()) extend(NID_subject_alt_name, names);
  X509_sign(made.get(), key_.get(), EVP_sha256());
  return made;
}

SecurityOptions BenchKeys::Issue(const std::string& uri) {
  SecurityOptions options;
  options.ca = Path("ca.crt");
  options.token_file = Path("token");
  if (uri.empty()) return options;
  options.cert = Path(absl::StrCat(++issued_, ".crt"));
  options.key = Path(absl::StrCat(issued_, ".key"));
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate made = Sign(key.get(), "critical,CA:FALSE", "URI:" + uri);
  WritePem(options.cert, [&](FILE* to) { PEM_write_X509(to, made.get()); });
  WritePem(options.key, [&](FILE* to) {
    PEM_write_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return options;
}

}  // namespace paracord::bench
