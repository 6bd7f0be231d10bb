// A set of batches of one epoch, kept as ranges of numbers: a split has the numbers from split *
// split_batches on. Consecutive finished splits merge into one range, so the number of ranges is
// about the number of leases and holes. A value; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace paracord {

class BatchRanges {
 public:
  // Beyond so many ranges a number that would begin another one is not taken.
  static constexpr size_t kRangesMax = 65'536;

  bool Has(uint64_t number) const;
  // Adds a number. False if it is there already, or if there are too many ranges.
  bool Add(uint64_t number);
  // How many numbers this set and the other one, which is small, have in common.
  uint64_t InBoth(const BatchRanges& small) const;
  // How many numbers it has.
  uint64_t size() const { return size_; }

  // The ranges, ascending, each as its first number and the one behind its last.
  std::vector<std::pair<uint64_t, uint64_t>> ranges() const { return {ends_.begin(), ends_.end()}; }
  // Replaces the set. False, and the set is empty, if these ranges are not ascending and apart.
  bool Assign(const std::vector<std::pair<uint64_t, uint64_t>>& ranges);

 private:
  std::map<uint64_t, uint64_t> ends_;  // first number of a range -> its end
  uint64_t size_ = 0;
};

}  // namespace paracord
