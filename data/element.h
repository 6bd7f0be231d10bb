// Converts the numbers of a file, of any of numpy's types, to float32 and to exact whole numbers.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/data_source.h"

namespace paracord {

enum class ElementType { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kF32, kF64 };

size_t ElementSize(ElementType type);

// Appends elements as float32 to `out`. Large whole numbers go to `exact`, too, by their indices in
// `out`.
void AppendElements(ElementType type, std::span<const char> bytes, bool big_endian,
                    std::vector<float>& out, std::vector<ExactInteger>& exact);

}  // namespace paracord
