#include "coordinator/core/batch_ranges.h"

#include <iterator>

namespace paracord {

bool BatchRanges::Has(uint64_t number) const {
  const auto after = ends_.upper_bound(number);
  return after != ends_.begin() && number < std::prev(after)->second;
}

bool BatchRanges::Add(uint64_t number) {
  const auto after = ends_.upper_bound(number);
  const bool follows = after != ends_.begin() && std::prev(after)->second >= number;
  if (follows && number < std::prev(after)->second) return false;
  const bool precedes = after != ends_.end() && after->first == number + 1;
  if (!follows && !precedes && ends_.size() >= kRangesMax) return false;
  const uint64_t end = precedes ? after->second : number + 1;
  if (follows) {
    std::prev(after)->second = end;
  } else {
    ends_.emplace_hint(after, number, end);
  }
  if (precedes) ends_.erase(after);
  ++size_;
  return true;
}

uint64_t BatchRanges::InBoth(const BatchRanges& small) const {
  uint64_t count = 0;
  for (const auto& [first, end] : small.ends_) {
    for (uint64_t number = first; number < end; ++number) count += Has(number) ? 1 : 0;
  }
  return count;
}

bool BatchRanges::Assign(const std::vector<std::pair<uint64_t, uint64_t>>& ranges) {
  ends_.clear();
  size_ = 0;
  for (const auto& [first, end] : ranges) {
    const bool apart = ends_.empty() || std::prev(ends_.end())->second < first;
    if (first >= end || !apart || ends_.size() >= kRangesMax) {
      ends_.clear();
      size_ = 0;
      return false;
    }
    ends_.emplace_hint(ends_.end(), first, end);
    size_ += end - first;
  }
  return true;
}

}  // namespace paracord
