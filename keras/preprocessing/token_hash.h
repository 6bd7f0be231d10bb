// The hashes by which Keras' layers put strings into bins: TensorFlow's Fingerprint64 or, if the
// layer has a salt, SipHash-2-4 (Aumasson and Bernstein, 2012) with the salt as its key. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "keras/layers/layer_config.h"

namespace paracord {

uint64_t SipHash24(const std::array<uint64_t, 2>& key, std::string_view text);

class TokenHash {
 public:
  // Reads the key "salt": null, a whole number, or a list of two whole numbers.
  void ReadSalt(LayerConfig& config);
  bool salted() const { return salt_.has_value(); }
  // Returns the bin of `text`, a number from 0 to `bins` - 1.
  int64_t Bin(std::string_view text, uint64_t bins) const;

 private:
  std::optional<std::array<uint64_t, 2>> salt_;
};

}  // namespace paracord
