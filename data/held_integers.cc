#include "data/held_integers.h"

#include <utility>

namespace paracord {

void HeldIntegers::Reserve(size_t count) {
  reserved_ = count;
  narrow_.reserve(count);
}

void HeldIntegers::Widen() {
  wide_.reserve(reserved_);
  for (size_t i = 0; i < narrow_.size(); ++i) {
    wide_.push_back(negative_ ? static_cast<int32_t>(narrow_[i]) : int64_t{narrow_[i]});
  }
  narrow_ = {};
}

void HeldIntegers::Append(ElementType type, std::span<const char> bytes, bool big_endian) {
  negative_ = type == ElementType::kI32;
  const size_t size = ElementSize(type);
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    const int64_t value = LoadInteger(type, bytes.data() + at, big_endian);
    if (wide_.empty() && !negative_ && !std::in_range<uint32_t>(value)) Widen();
    if (wide_.empty() && (negative_ || std::in_range<uint32_t>(value))) {
      narrow_.push_back(static_cast<uint32_t>(value));
    } else {
      wide_.push_back(value);
    }
  }
}

}  // namespace paracord
