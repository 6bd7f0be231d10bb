#include "common/fingerprint64.h"

#include <bit>
#include <cstring>
#include <utility>

namespace paracord {
namespace {

constexpr uint64_t k0 = 0xc3a5c85c97cb3127;
constexpr uint64_t k1 = 0xb492b66fbe98f273;
constexpr uint64_t k2 = 0x9ae16a3b2f90404f;

static_assert(std::endian::native == std::endian::little);

uint64_t Fetch64(const char* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint64_t Fetch32(const char* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint64_t Rotate(uint64_t value, int shift) { return std::rotr(value, shift); }
uint64_t ShiftMix(uint64_t value) { return value ^ (value >> 47); }

uint64_t HashLen16(uint64_t u, uint64_t v, uint64_t mul) {
  const uint64_t a = ShiftMix((u ^ v) * mul);
  return ShiftMix((v ^ a) * mul) * mul;
}

uint64_t HashUpTo16(const char* s, size_t n) {
  if (n >= 8) {
    const uint64_t mul = k2 + n * 2;
    const uint64_t a = Fetch64(s) + k2, b = Fetch64(s + n - 8);
    return HashLen16(Rotate(b, 37) * mul + a, (Rotate(a, 25) + b) * mul, mul);
  }
  if (n >= 4) return HashLen16(n + (Fetch32(s) << 3), Fetch32(s + n - 4), k2 + n * 2);
  if (n == 0) return k2;
  const auto a = static_cast<unsigned char>(s[0]);
  const auto b = static_cast<unsigned char>(s[n >> 1]);
  const auto c = static_cast<unsigned char>(s[n - 1]);
  const uint64_t y = a + (uint64_t{b} << 8), z = n + (uint64_t{c} << 2);
  return ShiftMix(y * k2 ^ z * k0) * k2;
}

uint64_t Hash17To32(const char* s, size_t n) {
  const uint64_t mul = k2 + n * 2;
  const uint64_t a = Fetch64(s) * k1, b = Fetch64(s + 8);
  const uint64_t c = Fetch64(s + n - 8) * mul, d = Fetch64(s + n - 16) * k2;
  return HashLen16(Rotate(a + b, 43) + Rotate(c, 30) + d, a + Rotate(b + k2, 18) + c, mul);
}

uint64_t Hash33To64(const char* s, size_t n) {
  const uint64_t mul = k2 + n * 2;
  const uint64_t a = Fetch64(s) * k2, b = Fetch64(s + 8);
  const uint64_t c = Fetch64(s + n - 8) * mul, d = Fetch64(s + n - 16) * k2;
  const uint64_t y = Rotate(a + b, 43) + Rotate(c, 30) + d;
  const uint64_t z = HashLen16(y, a + Rotate(b + k2, 18) + c, mul);
  const uint64_t e = Fetch64(s + 16) * mul, f = Fetch64(s + 24);
  const uint64_t g = (y + Fetch64(s + n - 32)) * mul, h = (z + Fetch64(s + n - 24)) * mul;
  return HashLen16(Rotate(e + f, 43) + Rotate(g, 30) + h, e + Rotate(f + a, 18) + g, mul);
}

// The state carried from one block of 64 bytes to the next.
struct State {
  uint64_t x, y, z;
  std::pair<uint64_t, uint64_t> v{0, 0}, w{0, 0};
};

std::pair<uint64_t, uint64_t> Weak32(const char* s, uint64_t a, uint64_t b) {
  const uint64_t last = Fetch64(s + 24);
  a += Fetch64(s);
  b = Rotate(b + a + last, 21);
  const uint64_t c = a;
  a += Fetch64(s + 8) + Fetch64(s + 16);
  b += Rotate(a, 44);
  return {a + last, b + c};
}

// `weight` is 1, and 9 for the last block.
void AddBlock(const char* s, uint64_t mul, uint64_t weight, State& t) {
  t.x = Rotate(t.x + t.y + t.v.first + Fetch64(s + 8), 37) * mul;
  t.y = Rotate(t.y + t.v.second + Fetch64(s + 48), 42) * mul;
  t.x ^= t.w.second * weight;
  t.y += t.v.first * weight + Fetch64(s + 40);
  t.z = Rotate(t.z + t.w.first, 33) * mul;
  t.v = Weak32(s, t.v.second * mul, t.x + t.w.first);
  t.w = Weak32(s + 32, t.z + t.w.second, t.y + Fetch64(s + 16));
  std::swap(t.z, t.x);
}

uint64_t HashLong(const char* s, size_t n) {
  constexpr uint64_t kSeed = 81;
  State t{};
  t.y = kSeed * k1 + 113;
  t.z = ShiftMix(t.y * k2 + 113) * k2;
  t.x = kSeed * k2 + Fetch64(s);
  const char* const last64 = s + n - 64;
  for (const char* const end = s + (n - 1) / 64 * 64; s != end; s += 64) AddBlock(s, k1, 1, t);
  const uint64_t mul = k1 + ((t.z & 0xff) << 1);
  t.w.first += (n - 1) & 63;
  t.v.first += t.w.first;
  t.w.first += t.v.first;
  AddBlock(last64, mul, 9, t);
  return HashLen16(HashLen16(t.v.first, t.w.first, mul) + ShiftMix(t.y) * k0 + t.z,
                   HashLen16(t.v.second, t.w.second, mul) + t.x, mul);
}

}  // namespace

uint64_t Fingerprint64(std::string_view text) {
  const size_t n = text.size();
  if (n <= 16) return HashUpTo16(text.data(), n);
  if (n <= 32) return Hash17To32(text.data(), n);
  if (n <= 64) return Hash33To64(text.data(), n);
  return HashLong(text.data(), n);
}

uint64_t FingerprintCat64(uint64_t first, uint64_t second) {
  constexpr uint64_t kMul = 0xc6a4a7935bd1e995;
  const uint64_t mixed = ((first ^ kMul) ^ ShiftMix(second * kMul) * kMul) * kMul;
  return ShiftMix(ShiftMix(mixed) * kMul);
}

}  // namespace paracord
