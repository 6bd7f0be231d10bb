// What the replicas of a program, each in a thread of its own, add up on the host: few numbers, of
// which all must have their part before any goes on. Thread-safe.
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

  // The sums over all parts, in their order, so that they are the same for all. ABORTED: after
  // Abort.
  absl::StatusOr<std::vector<double>> Sum(size_t part, std::vector<double> numbers);
  // Nobody waits any more.
  void Abort();

 private:
  const size_t parts_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<std::vector<double>> given_;  // by part; guarded by mu_, as all that follows
  std::vector<double> sums_;                // of the round before
  size_t here_ = 0;
  uint64_t round_ = 0;
  bool aborted_ = false;
};

}  // namespace paracord
