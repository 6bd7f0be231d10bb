// Random numbers for identities and jitter. Not for data plan, initializers and dropout, which are
// pure functions of the job's seed (common/counter_random.h).
#pragma once

#include <cstdint>
#include <string>

namespace paracord {

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;

  // A run id or a boot id: 32 hex digits.
  std::string NextId();
  // A number uniform in [low, high].
  int64_t Between(int64_t low, int64_t high);
};

// The operating system's random numbers.
class SystemRandom : public Random {
 public:
  uint64_t Next() override;
};

}  // namespace paracord
