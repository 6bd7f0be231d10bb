#include "config/proofs.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdint>
#include <initializer_list>

namespace paracord {
namespace {

constexpr size_t kProofBytes = 16;

void AppendLittleEndian(uint64_t value, std::string& text) {
  for (int shift = 0; shift < 64; shift += 8) text += static_cast<char>(value >> shift);
}

// Returns "", which proves nothing, if OpenSSL computes no HMAC.
std::string ProofOf(std::string_view key, std::string text,
                    std::initializer_list<uint64_t> numbers) {
  for (const uint64_t number : numbers) AppendLittleEndian(number, text);
  unsigned char whole[EVP_MAX_MD_SIZE] = {};
  unsigned int size = 0;
  const unsigned char* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), whole, &size);
  if (made == nullptr || size < kProofBytes) return "";
  return {reinterpret_cast<const char*>(whole), kProofBytes};
}

bool Same(std::string_view proof, const std::string& expected) {
  return !expected.empty() && proof.size() == expected.size() &&
         CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

}  // namespace

std::string RejectionOf(std::string_view key, const BatchId& batch) {
  return ProofOf(key, "paracord rejection", {batch.epoch(), batch.split(), batch.batch()});
}

std::string LeaseProofOf(std::string_view key, uint64_t generation, uint64_t epoch,
                         uint64_t split) {
  return ProofOf(key, "paracord lease", {generation, epoch, split});
}

bool IsRejection(std::string_view rejection, std::string_view key, const BatchId& batch) {
  return Same(rejection, RejectionOf(key, batch));
}

bool IsLeaseProof(std::string_view proof, std::string_view key, uint64_t generation,
                  const BatchId& batch) {
  return Same(proof, LeaseProofOf(key, generation, batch.epoch(), batch.split()));
}

}  // namespace paracord
