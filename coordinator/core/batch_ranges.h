// A set of batches of one epoch, stored as ranges of batch numbers: the numbers of split s begin at
// s * split_batches. Ranges that touch merge into one. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace paracord {

class BatchRanges {
 public:
  // The most ranges: a number that would begin another range is refused.
  static constexpr size_t kRangesMax = 65'536;

  bool Has(uint64_t number) const;
  // Adds a number. False if the number is in the set already, or if there are too many ranges.
  bool Add(uint64_t number);
  // How many numbers are in both sets. The time grows with the numbers in `small`.
  uint64_t InBoth(const BatchRanges& small) const;
  // How many numbers are in the set.
  uint64_t size() const { return size_; }

  // The ranges, ascending, each as its first number and its end (one past the last number).
  std::vector<std::pair<uint64_t, uint64_t>> ranges() const { return {ends_.begin(), ends_.end()}; }
  // Replaces the set. False, and the set becomes empty, if a range is empty or does not begin after
  // the end of the range before it, or if there are more than kRangesMax ranges.
  bool Assign(const std::vector<std::pair<uint64_t, uint64_t>>& ranges);

 private:
  std::map<uint64_t, uint64_t> ends_;  // first number of a range -> its end
  uint64_t size_ = 0;
};

}  // namespace paracord
