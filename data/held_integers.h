// The whole numbers of an array in memory, with all digits. Each takes 4 bytes if the numbers are
// of type int32, or as long as all of them fit into uint32, and otherwise 8 bytes. One thread
// appends; afterwards the object is constant.
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
  // Appends integers of 4 or 8 bytes. All calls pass the same `type`.
  void Append(ElementType type, std::span<const char> bytes, bool big_endian);
  // Returns the 64 bits of a number; a number of a uint64 file may be beyond int64.
  int64_t at(size_t element) const {
    if (!wide_.empty()) return wide_[element];
    return negative_ ? static_cast<int32_t>(narrow_[element]) : int64_t{narrow_[element]};
  }
  // Calls `reorder` with the vector that holds the numbers.
  template <class Reorder>
  void Permute(const Reorder& reorder) {
    wide_.empty() ? reorder(narrow_) : reorder(wide_);
  }

 private:
  void Widen();

  size_t reserved_ = 0;
  bool negative_ = false;  // the numbers in narrow_ are int32 rather than uint32
  std::vector<uint32_t> narrow_;
  std::vector<int64_t> wide_;
};

}  // namespace paracord
