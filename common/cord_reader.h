// Reads little-endian numbers from a Cord, one after another. A number may begin in one chunk of
// the Cord and end in the next: the ps applies a gradient from the chunks in which it arrived. The
// Cord must outlive the reader, and hold enough numbers.
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

  // Returns the next buffer.size() numbers. The result is a view into the Cord or, if the numbers
  // are spread over chunks or are not aligned, a view of `buffer`, which then has a copy.
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
  // Copies the next bytes of the Cord to `out`, and fills all of `out`.
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

// The number of floats that callers convert at a time: few enough to stay in the cache.
inline constexpr size_t kFloatsAtOnce = 4096;

}  // namespace paracord
