// Reads and writes numbers in the bytes of files and messages: numbers of a fixed width,
// little-endian and without alignment, and varints as in protobuf (seven bits in a byte, the lowest
// first).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace paracord {

static_assert(std::endian::native == std::endian::little);

template <class T>
void AppendRaw(T value, std::string& to) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Reads a number at `at`; the caller has checked the size of `bytes`.
template <class T>
T LoadRaw(std::string_view bytes, size_t at = 0) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

inline void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

// Removes a varint from the front of `from`. Returns false if `from` ends inside the varint, or if
// the varint has more than 64 bits.
inline bool TakeVarint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    if (shift == 63 && byte > 1) return false;
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace paracord
