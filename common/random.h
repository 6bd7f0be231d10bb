// Random numbers, for identities and jitter. Never for anything the data plan, an initializer or
// dropout needs: those are pure functions of the job's seed (common/counter_random.h).
#pragma once

#include <cstdint>
#include <string>

namespace paracord {

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;

  // 32 hex digits: a run id or a boot id.
  std::string NextId();
  // Uniform in [low, high].
  int64_t Between(int64_t low, int64_t high);
};

// From the operating system.
class SystemRandom : public Random {
 public:
  uint64_t Next() override;
};

}  // namespace paracord
