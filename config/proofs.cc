#include "config/proofs.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "config/data_plan.h"

namespace paracord {
namespace {

constexpr size_t kProofBytes = 16;

void AppendLittleEndian(uint64_t value, std::string& text) {
  for (int shift = 0; shift < 64; shift += 8) text += static_cast<char>(value >> shift);
}

struct FreeContext {
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};
using MacContext = std::unique_ptr<EVP_MAC_CTX, FreeContext>;

// HMAC-SHA256 with a cached key: each thread looks the algorithm up once and prepares each key
// once.
class ProofMaker {
 public:
  // Returns "", which proves nothing, if OpenSSL computes no HMAC.
  std::string Make(std::string_view key, std::string_view text) {
    unsigned char whole[EVP_MAX_MD_SIZE] = {};
    size_t size = 0;
    if (!Begin(key) || EVP_MAC_update(context_.get(), Bytes(text), text.size()) != 1 ||
        EVP_MAC_final(context_.get(), whole, &size, sizeof(whole)) != 1 || size < kProofBytes) {
      context_.reset();
      return "";
    }
    return {reinterpret_cast<const char*>(whole), kProofBytes};
  }

 private:
  static const unsigned char* Bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  }

  bool Begin(std::string_view key) {
    if (context_ != nullptr && key == key_) {
      return EVP_MAC_init(context_.get(), nullptr, 0, nullptr) == 1;
    }
    EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, OSSL_MAC_NAME_HMAC, nullptr);
    context_.reset(hmac == nullptr ? nullptr : EVP_MAC_CTX_new(hmac));
    EVP_MAC_free(hmac);  // the context holds a reference
    key_ = key;
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                 OSSL_PARAM_construct_end()};
    return context_ != nullptr &&
           EVP_MAC_init(context_.get(), Bytes(key_), key_.size(), params) == 1;
  }

  struct Free {
    void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
  };
  std::unique_ptr<EVP_MAC_CTX, Free> context_;
  std::string key_;
};

std::string ProofOf(std::string_view key, std::string text,
                    std::initializer_list<uint64_t> numbers) {
  for (const uint64_t number : numbers) AppendLittleEndian(number, text);
  thread_local ProofMaker maker;
  return maker.Make(key, text);
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

bool AreLeaseProofs(std::string_view proofs, uint32_t splits, std::string_view key,
                    uint64_t generation, const BatchId& batch) {
  if (splits == 1) return IsLeaseProof(proofs, key, generation, batch);
  if (splits > kLanesMax || proofs.size() % splits != 0) return false;
  const size_t bytes = proofs.size() / splits;
  BatchId each = batch;
  bool all = true;
  for (uint32_t i = 0; i < splits; ++i) {
    each.set_split(batch.split() + i);
    all = IsLeaseProof(proofs.substr(i * bytes, bytes), key, generation, each) && all;
  }
  return all;
}

}  // namespace paracord
