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

// Where the fingerprint of a cross starts (tf.sparse.cross_hashed): then one FingerprintCat64 with
// each feature in order, of a string its Fingerprint64, of an integer itself. The bin is the result
// modulo the number of bins.
constexpr uint64_t kCrossKey = 0xDECAFCAFFE;

}  // namespace paracord
