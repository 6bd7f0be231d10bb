// Reads little-endian numbers out of a Cord, in order, whatever the boundaries of its pieces: a
// gradient is applied straight from the slices in which it arrived. Lives on the stack; the Cord
// outlives it. The Cord has what is asked for: the caller knows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "absl/strings/cord.h"

namespace paracord {

template <class T>
class CordReader {
 public:
  explicit CordReader(const absl::Cord& cord) : chunks_(cord.Chunks()), at_(chunks_.begin()) {
    if (at_ != chunks_.end()) rest_ = *at_;
  }

  // The next buffer.size() numbers, which the Cord has left: where they lie, or in `buffer` if they
  // lie in several pieces or at an odd place.
  std::span<const T> Next(std::span<T> buffer) {
    while (rest_.empty() && !buffer.empty()) rest_ = *++at_;
    const auto* const here = reinterpret_cast<const T*>(rest_.data());
    if (rest_.size() < buffer.size_bytes() || reinterpret_cast<uintptr_t>(here) % alignof(T) != 0) {
      Read(buffer);
      return buffer;
    }
    rest_.remove_prefix(buffer.size_bytes());
    return {here, buffer.size()};
  }

 private:
  // Fills all of `out`; the Cord has that much left.
  void Read(std::span<T> out) {
    char* to = reinterpret_cast<char*>(out.data());
    size_t wanted = out.size_bytes();
    while (wanted > 0) {
      if (rest_.empty()) {
        ++at_;
        rest_ = *at_;
        continue;
      }
      const size_t step = std::min(wanted, rest_.size());
      std::memcpy(to, rest_.data(), step);
      rest_.remove_prefix(step);
      to += step;
      wanted -= step;
    }
  }

  absl::Cord::ChunkRange chunks_;
  absl::Cord::ChunkIterator at_;
  absl::string_view rest_;
};

// How many floats are read at a time: small enough to stay in the first-level cache.
inline constexpr size_t kFloatsAtOnce = 4096;

}  // namespace paracord
