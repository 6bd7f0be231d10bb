#include "common/random.h"

#include <random>

#include "absl/strings/str_format.h"

namespace paracord {

std::string Random::NextId() {
  const uint64_t high = Next();
  const uint64_t low = Next();
  return absl::StrFormat("%016x%016x", high, low);
}

int64_t Random::Between(int64_t low, int64_t high) {
  const uint64_t span = static_cast<uint64_t>(high - low) + 1;
  return low + static_cast<int64_t>(span == 0 ? Next() : Next() % span);
}

uint64_t SystemRandom::Next() {
  thread_local std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace paracord
