// Adds up a few numbers over the parts of a program, each of which calls Sum from its own thread.
// Also a barrier: Sum returns when all parts have called it, or after Abort. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paracord {

class PartSum {
 public:
  explicit PartSum(size_t parts) : parts_(parts) {}

  // Returns the sums of the numbers of all parts, added in the order of the parts, so that every
  // part gets equal bits. ABORTED after Abort.
  absl::StatusOr<std::vector<double>> Sum(size_t part, std::vector<double> numbers);
  // Makes all waiting and later calls of Sum return ABORTED.
  void Abort();

 private:
  const size_t parts_;
  std::mutex mu_;
  std::condition_variable changed_;
  // Indexed by part; guarded by mu_, like all members below.
  std::vector<std::vector<double>> given_;
  std::vector<double> sums_;  // the results of the last Sum
  size_t here_ = 0;
  uint64_t round_ = 0;
  bool aborted_ = false;
};

}  // namespace paracord
