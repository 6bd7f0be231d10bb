// TensorFlow's hash of strings, which is Fingerprint64 of FarmHash (Geoff Pike, "farmhashna"), and
// TensorFlow's combination of several hashes into the hash of a feature cross. The bins of Keras'
// layers Hashing and HashedCrossing depend on these hashes, so no bit of a hash may ever change.
// Not for hash tables whose keys strangers choose.
#pragma once

#include <cstdint>
#include <string_view>

namespace paracord {

uint64_t Fingerprint64(std::string_view text);

// The fingerprint of a cross of features, as in tf.sparse.cross_hashed. Add gets the features one
// after another, in the order of the cross: the Fingerprint64 of a string, or the value of an
// integer. The bin of the cross is value() modulo the number of bins.
class CrossFingerprint {
 public:
  void Add(uint64_t feature);  // combines like TensorFlow's FingerprintCat64
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xDECAFCAFFE;
};

}  // namespace paracord
