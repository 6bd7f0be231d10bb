#include "common/fingerprint64.h"

#include <farmhash.h>

namespace paracord {

uint64_t Fingerprint64(std::string_view text) {
  return util::Fingerprint64(text.data(), text.size());
}

uint64_t FingerprintCat64(uint64_t first, uint64_t second) {
  constexpr uint64_t kMul = 0xc6a4a7935bd1e995;
  const auto mix = [](uint64_t x) { return x ^ (x >> 47); };
  const uint64_t mixed = ((first ^ kMul) ^ mix(second * kMul) * kMul) * kMul;
  return mix(mix(mixed) * kMul);
}

}  // namespace paracord
