// The hash by which TensorFlow names things: FarmHash's Fingerprint64 (Geoff Pike, "farmhashna"),
// and the way its feature crosses combine several. The bins of Keras' Hashing and HashedCrossing
// layers come from it, so every bit is fixed for ever. Pure. Not for hash tables of untrusted keys.
#pragma once

#include <cstdint>
#include <string_view>

namespace paracord {

uint64_t Fingerprint64(std::string_view text);

// tensorflow/core/platform/fingerprint.h; not symmetric.
uint64_t FingerprintCat64(uint64_t first, uint64_t second);

// The fingerprint that a cross starts with (tf.sparse.cross_hashed). Each feature is then added in
// order by FingerprintCat64: a string by its Fingerprint64, an integer as it is. The bin is the
// result modulo the number of bins.
constexpr uint64_t kCrossKey = 0xDECAFCAFFE;

}  // namespace paracord
