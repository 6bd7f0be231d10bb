// A partition's gradient as it arrived, in whichever encoding: its size and its indices are checked
// when it is made, and it is decoded a few thousand elements at a time while it is applied, so that
// there is never a whole copy. Shares its bytes with the message. Read by many threads at once.
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
  Gradient() = default;                  // none
  explicit Gradient(absl::Cord floats);  // float32
  // INVALID_ARGUMENT says what is wrong, without the partition.
  static absl::StatusOr<Gradient> Read(Encoding encoding, uint64_t elements, absl::Cord bytes);
  // Whether so many bytes can be such a gradient.
  static absl::Status CheckBytes(Encoding encoding, uint64_t elements, uint64_t bytes);

  bool empty() const { return elements_ == 0; }
  uint64_t elements() const { return elements_; }
  bool sparse() const { return encoding_ == ENCODING_TOP_K; }
  bool Finite() const;

  // Of a sparse one, those among `count` elements from `first` on.
  struct Entries {
    std::span<const uint32_t> indices;  // of the partition, ascending
    std::span<const float> values;
  };
  Entries EntriesIn(uint64_t first, uint64_t count) const;

  // Elements in order, from a multiple of kFloatsAtOnce on.
  class Reader {
   public:
    Reader(const Gradient& gradient, uint64_t first, uint64_t count);
    // The next buffer.size() elements, where they lie or in `buffer`: kFloatsAtOnce of them, or the
    // rest.
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
  absl::Cord bytes_;               // of a dense one and of int8
  std::vector<uint32_t> indices_;  // of a sparse one
  std::vector<float> values_;
};

}  // namespace paracord
