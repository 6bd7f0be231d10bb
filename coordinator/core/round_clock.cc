#include "coordinator/core/round_clock.h"

#include <cmath>

namespace paracord {
namespace {

constexpr double kKept = 0.8;  // weight of the old mean

}  // namespace

void RoundClock::Begin(uint32_t least, int64_t now_ms) {
  least_ = least;
  began_ms_ = now_ms;
}

void RoundClock::Note(uint32_t least, int64_t now_ms) {
  if (least == least_) return;
  if (least < least_) return Begin(least, now_ms);  // a ps lost its state
  const double rounds = least - least_;
  const double each_ms = static_cast<double>(now_ms - began_ms_) / rounds;
  const double kept = usual_ms_.has_value() ? std::pow(kKept, rounds) : 0;
  usual_ms_ = kept * usual_ms_.value_or(0) + (1 - kept) * each_ms;
  Begin(least, now_ms);
}

}  // namespace paracord
