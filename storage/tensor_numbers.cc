#include "storage/tensor_numbers.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/half_float.h"

namespace paracord {
namespace {

// Returns false if float32 cannot represent an integer.
using ToFloatsFn = bool (*)(std::string_view bytes, std::span<float> out);

template <class T>
bool Convert(std::string_view bytes, std::span<float> out) {
  constexpr T kExactMax = static_cast<T>(sizeof(T) < 4 ? 0 : int64_t{1} << 24);
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
      if (value > kExactMax) return false;
      if constexpr (std::is_signed_v<T>) {
        if (value < -kExactMax) return false;
      }
    }
    out[i] = static_cast<float>(value);
  }
  return true;
}

template <void (*kWiden)(std::span<const uint16_t>, std::span<float>)>
bool Widen(std::string_view bytes, std::span<float> out) {
  std::vector<uint16_t> half(out.size());
  std::memcpy(half.data(), bytes.data(), bytes.size());
  kWiden(half, out);
  return true;
}

struct NumberType {
  std::string_view name;
  uint64_t bytes;
  ToFloatsFn convert;
};
constexpr NumberType kTypes[] = {
    {"F32", 4, Convert<float>},    {"F64", 8, Convert<double>},   {"F16", 2, Widen<F16ToFloats>},
    {"I64", 8, Convert<int64_t>},  {"I32", 4, Convert<int32_t>},  {"I16", 2, Convert<int16_t>},
    {"I8", 1, Convert<int8_t>},    {"U64", 8, Convert<uint64_t>}, {"U32", 4, Convert<uint32_t>},
    {"U16", 2, Convert<uint16_t>}, {"U8", 1, Convert<uint8_t>},   {"BF16", 2, Widen<Bf16ToFloats>},
    {"BOOL", 1, Convert<uint8_t>}};

const NumberType* TypeOf(const TensorInfo& tensor) {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const NumberType& type) { return type.name == tensor.dtype; });
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

uint64_t NumberBytes(const TensorInfo& tensor) {
  const NumberType* type = TypeOf(tensor);
  return type == nullptr ? 0 : type->bytes;
}

absl::Status ToFloats(const TensorInfo& tensor, std::string_view bytes, std::span<float> out) {
  const auto refuse = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " ", what));
  };
  const NumberType* type = TypeOf(tensor);
  if (type == nullptr) return refuse(absl::StrCat("is ", tensor.dtype, ", which is no number"));
  if (type->convert(bytes, out)) return absl::OkStatus();
  return refuse("holds an integer beyond 2^24, which float32 lacks");
}

}  // namespace paracord
