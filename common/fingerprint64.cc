#include "common/fingerprint64.h"

#include <farmhash.h>

namespace paracord {

uint64_t Fingerprint64(std::string_view text) {
  return util::Fingerprint64(text.data(), text.size());
}

void CrossFingerprint::Add(uint64_t feature) {
  constexpr uint64_t kMul = 0xc6a4a7935bd1e995;
  const auto mix = [](uint64_t x) { return x ^ (x >> 47); };
  const uint64_t mixed = ((value_ ^ kMul) ^ mix(feature * kMul) * kMul) * kMul;
  value_ = mix(mix(mixed) * kMul);
}

}  // namespace paracord
