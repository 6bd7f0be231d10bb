// Makes SHA-256 and HMAC fail in OpenSSL during the lifetime of an object, as on a host that
// requires FIPS providers but has none. Affects all threads.
#pragma once

#include <openssl/evp.h>

namespace paracord {

class NoHashes {
 public:
  NoHashes() { EVP_default_properties_enable_fips(nullptr, 1); }
  ~NoHashes() { EVP_default_properties_enable_fips(nullptr, 0); }
  NoHashes(const NoHashes&) = delete;
  NoHashes& operator=(const NoHashes&) = delete;
};

}  // namespace paracord
