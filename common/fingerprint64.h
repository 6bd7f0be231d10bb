// The hash by which TensorFlow names things: FarmHash's Fingerprint64 (Geoff Pike, "farmhashna"),
// and the way its feature crosses combine several. The bins of Keras' Hashing and HashedCrossing
// layers come from it, so every bit is fixed for ever. Pure. Not for hash tables of untrusted keys.
#pragma once

#include <cstdint>
#include <string_view>

namespace paracord {

uint64_t Fingerprint64(std::string_view text);

// The fingerprint of a cross of features (tf.sparse.cross_hashed), which are added in order: a
// string by its Fingerprint64, an integer as it is. The bin is it modulo the number of bins.
class CrossFingerprint {
 public:
  void Add(uint64_t feature);  // FingerprintCat64 of tensorflow/core/platform/fingerprint.h
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xDECAFCAFFE;
};

}  // namespace paracord
