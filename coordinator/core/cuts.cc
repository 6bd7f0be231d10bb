#include "coordinator/core/cuts.h"

#include <algorithm>
#include <cmath>

namespace paracord {
namespace {

constexpr uint64_t kAheadMin = 2;
constexpr double kRatePerSecondMax = 1e6;
constexpr uint32_t kLateMax = 20;  // the most doublings of the distance

}  // namespace

uint64_t Cuts::Order(const CutView& view) const {
  if (view.planned_end) return view.rest.value_or(view.greatest);
  if (view.greatest >= view.end) return view.greatest;
  const double rate =
      view.rounds_a_second > 0 ? std::min(view.rounds_a_second, kRatePerSecondMax) : 0;
  const uint64_t ahead = (kAheadMin + static_cast<uint64_t>(std::ceil(rate))) << late_;
  return view.greatest + std::min(ahead, view.end - view.greatest);
}

bool Cuts::OutOfRange() {
  if (late_ == kLateMax) return false;
  ++late_;
  return true;
}

}  // namespace paracord
