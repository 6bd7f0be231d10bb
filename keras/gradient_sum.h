// Adds the gradients of a replica (for its part of a batch) over all replicas. Final gradients are
// summed in buckets while others are still being computed, and the first replica downloads the
// sums. All replicas must issue equal all-reduces in equal order, even after an error. Owned by the
// program; used by the program's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "tensor/group_ops.h"

namespace paracord {

class GradientSum {
 public:
  // `meet` is a barrier: returns when all replicas have called, or once a replica has failed.
  // `download` is called with each variable after its sum was issued.
  GradientSum(Ops& ops, GroupOps& group, std::function<void()> meet,
              std::function<void(size_t)> download)
      : ops_(ops), group_(group), meet_(std::move(meet)), download_(std::move(download)) {}

  // Whether the next steps issue sums only at their end, between two barriers; all replicas must
  // agree. An all-reduce occupies the device until the other replicas' devices take part. A replica
  // that allocates memory or loads code meanwhile may wait for its device to become idle and never
  // reach its own all-reduce: a deadlock. Hence sums are held back in steps that may still
  // allocate.
  void HoldBack(bool held) { held_ = held; }

  // Begins a step; SetGradients then names the memory of each variable's gradient (null data: no
  // gradient).
  void Begin();
  void SetGradients(std::vector<DeviceFloats> gradients) { gradients_ = std::move(gradients); }
  // The variable's gradient is final: joins the current bucket, summed when large enough.
  void Final(size_t variable);
  // Ends the step. Gradients that did not become final, because the replica had no examples or
  // failed, are summed as zeros.
  void End();
  // False between Begin and End, while other replicas still wait for this replica's sums.
  bool ended() const { return ended_; }

  // Fixes the last step's order, in which every gradient was final, for all later steps. Called
  // once.
  void Learn() { order_ = done_; }

 private:
  void Flush();

  Ops& ops_;
  GroupOps& group_;
  const std::function<void()> meet_;
  const std::function<void(size_t)> download_;
  bool held_ = false;
  std::vector<size_t> order_;
  // State of a step.
  std::vector<DeviceFloats> gradients_;
  std::vector<size_t> done_, waiting_;
  size_t waiting_bytes_ = 0;
  bool ended_ = true;
};

}  // namespace paracord
