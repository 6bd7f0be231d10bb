#include "coordinator/core/batch_time.h"

#include <algorithm>
#include <cmath>

namespace paracord {
namespace {

constexpr double kMeasured = 0.05;     // long enough for a clock with a resolution of 1 ms
constexpr double kSecondsMin = 1e-6;   // seconds a batch
constexpr double kSecondsMax = 86400;  // a day
constexpr double kMeanKept = 0.8;      // weight of the old mean
constexpr double kChangeMax = 2;

}  // namespace

void BatchTime::Add(uint64_t batches, double seconds) {
  if (batches == 0) return;
  if (!warm_) {
    warm_ = true;
    return;
  }
  batches_ += batches;
  taken_ += seconds;
  if (taken_ < kMeasured) return;
  const auto count = static_cast<double>(batches_);
  double each = std::clamp(taken_ / count, kSecondsMin, kSecondsMax);
  batches_ = 0;
  taken_ = 0;
  if (seconds_ > 0) {
    each = std::clamp(each, seconds_ / kChangeMax, seconds_ * kChangeMax);
    const double kept = std::pow(kMeanKept, count);
    each = kept * seconds_ + (1 - kept) * each;
  }
  seconds_ = each;
}

}  // namespace paracord
