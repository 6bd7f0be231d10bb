#include "storage/crc32c.h"

namespace paracord {
namespace {

// Polynomials over GF(2) of degree below 32. The highest bit is the coefficient of the lowest
// power.
constexpr uint32_t kOne = 0x80000000u;
constexpr uint32_t kXToThe8 = kOne >> 8;
constexpr uint32_t kCastagnoli = 0x82f63b78u;

uint32_t Times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? kCastagnoli : 0);
  }
  return product;
}

}  // namespace

uint32_t Crc32cOfBoth(uint32_t first, uint32_t second, uint64_t second_bytes) {
  uint32_t square = kXToThe8;
  for (uint64_t left = second_bytes; left != 0; left >>= 1) {
    if ((left & 1) != 0) first = Times(first, square);
    square = Times(square, square);
  }
  return first ^ second;
}

}  // namespace paracord
