#include "config/rejection.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdint>

namespace paracord {
namespace {

constexpr size_t kRejectionBytes = 16;

void AppendLittleEndian(uint64_t value, std::string& text) {
  for (int shift = 0; shift < 64; shift += 8) text += static_cast<char>(value >> shift);
}

}  // namespace

std::string RejectionOf(std::string_view key, const BatchId& batch) {
  std::string text = "paracord rejection";
  AppendLittleEndian(batch.epoch(), text);
  AppendLittleEndian(batch.split(), text);
  AppendLittleEndian(batch.batch(), text);
  unsigned char whole[EVP_MAX_MD_SIZE] = {};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), whole, &size);
  return {reinterpret_cast<const char*>(whole), kRejectionBytes};
}

bool IsRejection(std::string_view rejection, std::string_view key, const BatchId& batch) {
  const std::string expected = RejectionOf(key, batch);
  return rejection.size() == expected.size() &&
         CRYPTO_memcmp(rejection.data(), expected.data(), expected.size()) == 0;
}

}  // namespace paracord
