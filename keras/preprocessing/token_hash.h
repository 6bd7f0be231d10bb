// The hashes by which Keras' layers put tokens into bins: TensorFlow's fingerprint, or with a salt
// the "strong" hash SipHash-2-4 (Aumasson and Bernstein, 2012) keyed by the salt. Pure.
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
  // Reads the key "salt": null, a whole number, or a list of two.
  void ReadSalt(LayerConfig& config);
  bool salted() const { return salt_.has_value(); }
  // Returns the bin of `text`, from 0 to below `bins`.
  int64_t Bin(std::string_view text, uint64_t bins) const;

 private:
  std::optional<std::array<uint64_t, 2>> salt_;
};

}  // namespace paracord
