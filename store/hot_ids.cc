#include "store/hot_ids.h"

#include <algorithm>

#include "common/mix.h"

namespace paracord {
namespace {

constexpr uint64_t kSeenMin = 4;

}  // namespace

void HotIds::Push(std::span<const uint64_t> ids) {
  ++pushes_;
  // Steps of different lengths, since a push may have the same ids in the same places again.
  while (next_ < ids.size()) {
    Count(ids[next_]);
    next_ += 1 + Mix64(ids[next_] + pushes_) % (2 * kSampled - 1);
  }
  next_ -= ids.size();
}

void HotIds::Count(uint64_t id) {
  ++counts_[id];
  if (counts_.size() <= kCounters) return;
  std::vector<uint64_t> all;
  for (const auto& [known, count] : counts_) all.push_back(count);
  const auto middle = all.begin() + static_cast<int64_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  const uint64_t median = *middle;
  absl::erase_if(counts_, [&](const auto& one) { return one.second <= median; });
  for (auto& [known, count] : counts_) count -= median;
}

std::vector<HotIds::Hot> HotIds::Top(size_t count) const {
  std::vector<Hot> top;
  for (const auto& [id, seen] : counts_) {
    if (seen < kSeenMin) continue;
    const double share = static_cast<double>(seen * kSampled) / static_cast<double>(pushes_);
    top.push_back({id, std::min(share, 1.0)});
  }
  std::ranges::sort(top, [](const Hot& a, const Hot& b) {
    return a.share != b.share ? a.share > b.share : a.id < b.id;
  });
  top.resize(std::min(top.size(), count));
  return top;
}

}  // namespace paracord
