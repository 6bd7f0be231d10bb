// Lets OpenSSL compute no SHA-256 and no HMAC while an object of this type lives, as where a host
// allows FIPS providers alone and has none. Other threads are concerned as well.
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
