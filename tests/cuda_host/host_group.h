// NCCL on the processor. Ranks, each with a runtime in a separate thread, meet at each all-reduce.
// As in NCCL, a missing rank blocks the rest until the group is aborted. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "tensor/group_ops.h"

namespace paracord::cuda {

class HostGroup {
 public:
  explicit HostGroup(size_t ranks) : given_(ranks) {}

  // Returns when all ranks have come. INTERNAL if their requests differ; DATA_LOSS after Abort.
  absl::Status Sum(size_t rank, std::vector<DeviceFloats> arrays);
  void Abort();
  bool aborted();
  int sums();  // completed all-reduces

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<std::vector<DeviceFloats>> given_;
  size_t here_ = 0;
  int round_ = 0;
  bool aborted_ = false, wrong_ = false;
};

}  // namespace paracord::cuda
