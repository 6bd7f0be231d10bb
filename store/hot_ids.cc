#include "store/hot_ids.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "common/mix.h"

namespace paracord {
namespace {

// With few samples, the largest of many shares is an accident: of 75 ids with a share of 1.3 %
// each, one that was seen 4 times looked like 9 %.
constexpr uint64_t kSeenMin = 50;

}  // namespace

void HotIds::Push(std::span<const uint64_t> ids) {
  ++pushes_;
  // Random step lengths, since a push may have equal ids in equal places again.
  while (next_ < ids.size()) {
    Count(ids[next_]);
    next_ += 1 + Mix64(ids[next_] + pushes_) % (2 * kSampled - 1);
  }
  next_ -= ids.size();
}

int64_t HotIds::Sketch(uint64_t id, int32_t add) {
  std::array<int64_t, kDepth> estimates{};
  for (size_t row = 0; row < kDepth; ++row) {
    const uint64_t hash = Mix64(id, row);
    const int32_t sign = hash >> 63 == 0 ? 1 : -1;
    int32_t& counter = counters_[row * kWidth + hash % kWidth];
    counter += sign * add;
    estimates[row] = int64_t{counter} * sign;
  }
  const auto middle = estimates.begin() + kDepth / 2;
  std::ranges::nth_element(estimates, middle);
  return *middle;
}

void HotIds::Count(uint64_t id) {
  counters_.resize(kDepth * kWidth);
  const int64_t estimate = Sketch(id, 1);
  if (const auto kept = kept_.find(id); kept != kept_.end()) {
    if (kept->second.since != pushes_) ++kept->second.seen;
  } else if (estimate > least_) {
    // The samples that made the id a candidate would bias its share, so counting starts at 0.
    kept_.emplace(id, Kept{.seen = 0, .since = pushes_});
    if (kept_.size() >= 2 * kKept) KeepHottest();
  }
}

void HotIds::KeepHottest() {
  std::vector<std::pair<int64_t, uint64_t>> all;  // estimate, id
  for (const auto& [id, kept] : kept_) all.emplace_back(Sketch(id, 0), id);
  std::ranges::sort(all, std::ranges::greater());
  least_ = all[kKept].first;
  for (size_t i = kKept; i < all.size(); ++i) kept_.erase(all[i].second);
}

std::vector<HotIds::Hot> HotIds::Top(size_t count) const {
  struct Ranked : Hot {
    double sure = 0;  // the share less two standard deviations, since few samples say little
  };
  std::vector<Ranked> ranked;
  for (const auto& [id, kept] : kept_) {
    if (kept.seen < kSeenMin) continue;
    const auto seen = static_cast<double>(kept.seen);
    const double scale = static_cast<double>(kSampled) / static_cast<double>(pushes_ - kept.since);
    ranked.push_back({{id, std::min(seen * scale, 1.0)}, (seen - 2 * std::sqrt(seen)) * scale});
  }
  std::ranges::sort(ranked, [](const Ranked& a, const Ranked& b) {
    return a.sure != b.sure ? a.sure > b.sure : a.id < b.id;
  });
  ranked.resize(std::min(ranked.size(), count));
  return {ranked.begin(), ranked.end()};
}

}  // namespace paracord
