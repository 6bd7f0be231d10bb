// Whole numbers of an array in memory, with all digits. Each takes 4 bytes while all fit into 32
// bits, and 8 bytes as soon as one does not. Filled by one thread, constant afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/element.h"

namespace paracord {

class HeldIntegers {
 public:
  bool empty() const { return narrow_.empty() && wide_.empty(); }
  size_t bytes_an_element() const { return wide_.empty() ? sizeof(uint32_t) : sizeof(int64_t); }
  void Reserve(size_t count);
  // Appends elements of a wide integer type (IsWideInteger), the same type in every call.
  void Append(ElementType type, std::span<const char> bytes, bool big_endian);
  // Returns the number's 64 bits; a number of a uint64 file may be beyond int64.
  int64_t at(size_t element) const {
    if (!wide_.empty()) return wide_[element];
    return negative_ ? static_cast<int32_t>(narrow_[element]) : int64_t{narrow_[element]};
  }
  // Calls `reorder` with the vector of numbers.
  template <class Reorder>
  void Permute(const Reorder& reorder) {
    wide_.empty() ? reorder(narrow_) : reorder(wide_);
  }

 private:
  void Widen();

  size_t reserved_ = 0;
  bool negative_ = false;  // narrow numbers are int32 rather than uint32
  std::vector<uint32_t> narrow_;
  std::vector<int64_t> wide_;
};

}  // namespace paracord
