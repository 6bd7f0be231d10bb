// Caches the scalars for the rows of one update, in a table whose rows count their updates
// (LazyScalarsAt): many rows have the same count, and computing scalars is slow. One thread.
#pragma once

#include <array>
#include <cstdint>

#include "store/optimizer.h"

namespace paracord {

class LazyScalars {
 public:
  LazyScalars(const Optimizer& optimizer, uint64_t step) : optimizer_(optimizer), step_(step) {}

  const UpdateScalars& At(uint64_t row_steps) {
    Cached& cached = cached_[row_steps % cached_.size()];
    if (cached.steps != row_steps) {
      cached = {row_steps, LazyScalarsAt(optimizer_, step_, row_steps)};
    }
    return cached.scalars;
  }

 private:
  struct Cached {
    uint64_t steps = UINT64_MAX;
    UpdateScalars scalars;
  };

  const Optimizer& optimizer_;
  const uint64_t step_;
  std::array<Cached, 256> cached_;
};

}  // namespace paracord
