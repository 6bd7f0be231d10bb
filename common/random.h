// Random numbers for run ids, boot ids and random delays. Not for the data plan, initial values and
// dropout, which are pure functions of the job's seed (common/mix.h, common/counter_random.h).
#pragma once

#include <cstdint>
#include <string>

namespace paracord {

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;

  // Returns a run id or a boot id: 32 hex digits.
  std::string NextId();
  // Returns a number uniform in [low, high].
  int64_t Between(int64_t low, int64_t high);
};

// The operating system's random numbers.
class SystemRandom : public Random {
 public:
  uint64_t Next() override;
};

}  // namespace paracord
