// A certificate authority (CA), and certificates that the CA signs, in temporary files, for
// benchmarks of TLS. Used by one thread.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "security/security_options.h"

namespace paracord::bench {

class BenchKeys {
 public:
  BenchKeys();
  ~BenchKeys();  // removes the files
  BenchKeys(const BenchKeys&) = delete;
  BenchKeys& operator=(const BenchKeys&) = delete;

  // Returns the options of a process that has the CA and a token and, unless `uri` is empty, a new
  // certificate for the identity `uri`, such as "spiffe://benchmark/ps/0".
  SecurityOptions Issue(const std::string& uri);

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
  Certificate Sign(EVP_PKEY* key, const std::string& constraints, const std::string& names) const;
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  std::string directory_;
  const Key key_;
  int issued_ = 0;
};

}  // namespace paracord::bench
