// TensorFlow's string hash: FarmHash's Fingerprint64 (Geoff Pike, "farmhashna"), and the
// combination of several hashes in feature crosses. The hashes determine the bins of Keras' Hashing
// and HashedCrossing layers, so no bit may ever change. Not for hash tables of untrusted keys.
#pragma once

#include <cstdint>
#include <string_view>

namespace paracord {

uint64_t Fingerprint64(std::string_view text);

// The fingerprint of a cross of features (tf.sparse.cross_hashed). The features are added in the
// order of the cross: a string by its Fingerprint64, an integer by its value. The cross's bin is
// the fingerprint modulo the number of bins.
class CrossFingerprint {
 public:
  void Add(uint64_t feature);  // FingerprintCat64 of TensorFlow
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xDECAFCAFFE;
};

}  // namespace paracord
