// The gradient of a partition as it arrived, in any encoding. Size and indices are checked at
// construction; elements are decoded a few thousand at a time during the update, so a gradient is
// never copied whole. Shares its bytes with the message. Many threads may read it at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "common/cord_reader.h"
#include "proto/paracord.pb.h"

namespace paracord {

class Gradient {
 public:
  Gradient() = default;                  // empty: no gradient
  explicit Gradient(absl::Cord floats);  // float32
  // A gradient over floats that stay in place while the gradient is used.
  static Gradient Over(std::span<const float> floats);
  // Makes a gradient. INVALID_ARGUMENT says what is wrong, without naming the partition.
  static absl::StatusOr<Gradient> Read(Encoding encoding, uint64_t elements, absl::Cord bytes);
  // Checks that a gradient of this encoding and number of elements has `bytes` bytes.
  static absl::Status CheckBytes(Encoding encoding, uint64_t elements, uint64_t bytes);

  bool empty() const { return elements_ == 0; }
  uint64_t elements() const { return elements_; }
  bool sparse() const { return encoding_ == ENCODING_TOP_K; }
  // All elements in place; empty if they lie in several pieces or have another encoding.
  std::span<const float> Flat() const;
  bool Finite() const;
  // The index of the first element that is not finite in a dense encoding; there must be one.
  uint64_t FirstNotFinite() const;

  // The entries of a sparse gradient among `count` elements from `first` on.
  struct Entries {
    std::span<const uint32_t> indices;  // indices within the partition, ascending
    std::span<const float> values;
  };
  Entries EntriesIn(uint64_t first, uint64_t count) const;

  // Reads elements in order, from a multiple of kFloatsAtOnce on.
  class Reader {
   public:
    Reader(const Gradient& gradient, uint64_t first, uint64_t count);
    // Returns the next buffer.size() elements, in place or decoded to `buffer`. It must have
    // kFloatsAtOnce elements, or as many as are left.
    std::span<const float> Next(std::span<float> buffer);

   private:
    const Gradient& gradient_;
    uint64_t at_;
    absl::Cord bytes_;
    absl::Cord scale_bytes_;  // int8
    std::optional<CordReader<float>> floats_;
    std::optional<CordReader<uint16_t>> halves_;
    std::optional<CordReader<int8_t>> int8s_;
    std::optional<CordReader<float>> scales_;
  };

 private:
  absl::Status ReadEntries();
  absl::Cord ScaleBytes(uint64_t first, uint64_t count) const;
  bool FiniteIn(uint64_t first, uint64_t count) const;

  Encoding encoding_ = ENCODING_FLOAT32;
  uint64_t elements_ = 0;
  absl::Cord bytes_;               // for dense encodings and int8
  std::vector<uint32_t> indices_;  // for a sparse encoding
  std::vector<float> values_;
};

}  // namespace paracord
