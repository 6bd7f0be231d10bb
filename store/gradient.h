// The gradient of a partition, or of some of its rows, in the encoding in which it arrived. Read
// checks size and indices. Elements are decoded a few thousand at a time during the update, so that
// only the entries of a sparse gradient are copied. A gradient shares its bytes with the message.
// Many threads may read it at once.
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
  explicit Gradient(absl::Cord floats);  // float32 elements
  // Returns a gradient over `floats`, which must stay in place while the gradient is used.
  static Gradient Over(std::span<const float> floats);
  // Makes a gradient of `elements` elements from its bytes. INVALID_ARGUMENT says what is wrong
  // with encoding, bytes or indices, without naming the partition.
  static absl::StatusOr<Gradient> Read(Encoding encoding, uint64_t elements, absl::Cord bytes);
  // Checks that a gradient of this encoding and number of elements may have `bytes` bytes.
  static absl::Status CheckBytes(Encoding encoding, uint64_t elements, uint64_t bytes);

  bool empty() const { return elements_ == 0; }
  uint64_t elements() const { return elements_; }
  bool sparse() const { return encoding_ == ENCODING_TOP_K; }
  // All elements where they lie; empty if they are in several pieces, not aligned or not float32.
  std::span<const float> Flat() const;
  bool Finite() const;
  // The index of the first element that is not finite, in a dense encoding; 0 if all are finite.
  uint64_t FirstNotFinite() const;

  // The entries of a sparse gradient whose indices are in [first, first + count).
  struct Entries {
    std::span<const uint32_t> indices;  // indices within the gradient, ascending
    std::span<const float> values;
  };
  Entries EntriesIn(uint64_t first, uint64_t count) const;

  // Reads elements [first, first + count) in order; `first` is a multiple of kFloatsAtOnce.
  class Reader {
   public:
    Reader(const Gradient& gradient, uint64_t first, uint64_t count);
    // Returns the next buffer.size() elements, where they lie or decoded to `buffer`, which must
    // have kFloatsAtOnce elements, or as many as are left if these are fewer.
    std::span<const float> Next(std::span<float> buffer);

   private:
    const Gradient& gradient_;
    uint64_t at_;
    absl::Cord bytes_;
    absl::Cord scale_bytes_;  // the scales of an int8 gradient
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
  absl::Cord bytes_;               // the encoded gradient, unless the encoding is sparse
  std::vector<uint32_t> indices_;  // the indices of a sparse gradient's entries
  std::vector<float> values_;      // the values of these entries
};

}  // namespace paracord
