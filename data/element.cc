#include "data/element.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "common/half_float.h"

namespace paracord {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
T Load(const char* from, bool big_endian) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, from, sizeof(T));
  if (big_endian) std::reverse(bytes, bytes + sizeof(T));
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Lists a large whole number, if the file's type holds all its digits.
template <class T>
void KeepLarge(size_t element, T value, std::vector<ExactInteger>& exact) {
  if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
    constexpr auto kType = std::is_same_v<T, uint64_t> ? ElementType::kU64 : ElementType::kI64;
    KeepInteger(kType, element, static_cast<int64_t>(value), exact);
  } else if constexpr (std::is_same_v<T, double>) {
    if (IsExactInteger(value)) KeepExact(element, static_cast<int64_t>(value), exact);
  }
}

// Appends elements as float32 to `out`, and large whole numbers, by index in `out`, to `exact`.
template <class T>
void AppendAs(std::span<const char> bytes, bool big_endian, std::vector<float>& out,
              std::vector<ExactInteger>& exact) {
  const size_t count = bytes.size() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    const T value = Load<T>(bytes.data() + i * sizeof(T), big_endian);
    KeepLarge(out.size(), value, exact);
    out.push_back(static_cast<float>(value));
  }
}

}  // namespace

size_t ElementSize(ElementType type) {
  switch (type) {
    case ElementType::kU8:
    case ElementType::kI8:
      return 1;
    case ElementType::kU16:
    case ElementType::kI16:
    case ElementType::kF16:
      return 2;
    case ElementType::kU32:
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kU64:
    case ElementType::kI64:
    case ElementType::kF64:
      return 8;
  }
  return 0;
}

bool IsWideInteger(ElementType type) {
  return type == ElementType::kU32 || type == ElementType::kI32 || type == ElementType::kU64 ||
         type == ElementType::kI64;
}

int64_t LoadInteger(ElementType type, const char* from, bool big_endian) {
  switch (type) {
    case ElementType::kU32:
      return Load<uint32_t>(from, big_endian);
    case ElementType::kI32:
      return Load<int32_t>(from, big_endian);
    case ElementType::kU64:
      return static_cast<int64_t>(Load<uint64_t>(from, big_endian));
    default:
      return Load<int64_t>(from, big_endian);
  }
}

void AppendElements(ElementType type, std::span<const char> bytes, bool big_endian,
                    std::vector<float>& out, std::vector<ExactInteger>& exact) {
  switch (type) {
    case ElementType::kU8:
      return AppendAs<uint8_t>(bytes, big_endian, out, exact);
    case ElementType::kI8:
      return AppendAs<int8_t>(bytes, big_endian, out, exact);
    case ElementType::kU16:
      return AppendAs<uint16_t>(bytes, big_endian, out, exact);
    case ElementType::kI16:
      return AppendAs<int16_t>(bytes, big_endian, out, exact);
    case ElementType::kU32:
      return AppendAs<uint32_t>(bytes, big_endian, out, exact);
    case ElementType::kU64:
      return AppendAs<uint64_t>(bytes, big_endian, out, exact);
    case ElementType::kF16:
      for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
        const auto half = Load<uint16_t>(bytes.data() + i, big_endian);
        F16ToFloats({&half, 1}, {&out.emplace_back(), 1});
      }
      return;
    case ElementType::kI32:
      return AppendAs<int32_t>(bytes, big_endian, out, exact);
    case ElementType::kI64:
      return AppendAs<int64_t>(bytes, big_endian, out, exact);
    case ElementType::kF32:
      return AppendAs<float>(bytes, big_endian, out, exact);
    case ElementType::kF64:
      return AppendAs<double>(bytes, big_endian, out, exact);
  }
}

}  // namespace paracord
