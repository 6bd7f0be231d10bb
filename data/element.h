// Converts the numbers in a file, of any ElementType, to float32 and exact whole numbers. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/data_source.h"

namespace paracord {

enum class ElementType { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kF32, kF64 };

size_t ElementSize(ElementType type);

// Whether LoadInteger reads the type: an integer of 4 or 8 bytes.
bool IsWideInteger(ElementType type);
// Reads an integer of 4 or 8 bytes. A uint64 beyond int64 becomes the int64 with the same bits.
int64_t LoadInteger(ElementType type, const char* from, bool big_endian);
// Converts a result of LoadInteger to float32.
inline float IntegerToFloat(ElementType type, int64_t value) {
  return type == ElementType::kU64 ? static_cast<float>(static_cast<uint64_t>(value))
                                   : static_cast<float>(value);
}

// Appends a result of LoadInteger to the exact numbers of a Column if float32 may not represent it.
inline void KeepInteger(ElementType type, size_t element, int64_t value,
                        std::vector<ExactInteger>& exact) {
  if (type == ElementType::kU64 && value < 0) {
    exact.push_back({element, value});
  } else {
    KeepExact(element, value, exact);
  }
}

// Appends the elements in `bytes` to `out`, as float32. Also appends the large whole numbers among
// them to `exact`; an element there is an index in `out`.
void AppendElements(ElementType type, std::span<const char> bytes, bool big_endian,
                    std::vector<float>& out, std::vector<ExactInteger>& exact);

}  // namespace paracord
