// Adds the gradients of one replica (its part of a batch) over all replicas. Gradients that are
// final are summed in buckets while others are still computed, and the first replica downloads the
// sums. All replicas must issue the same all-reduces in the same order, even after an error. Owned
// by the program; used by its thread.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "tensor/group_ops.h"

namespace paracord {

class GradientSum {
 public:
  // `meet` is a barrier: it returns when all replicas have called it, or once they never will.
  // `download` is called with each variable after its sum was issued.
  GradientSum(Ops& ops, GroupOps& group, std::function<void()> meet,
              std::function<void(size_t)> download)
      : ops_(ops), group_(group), meet_(std::move(meet)), download_(std::move(download)) {}

  // Says whether the next steps issue sums only at their end, between two barriers; all replicas
  // must say the same. An all-reduce occupies the device until the other replicas' devices take
  // part. A replica that allocates memory or loads code meanwhile may wait for its device to become
  // idle and never reach its own all-reduce. So sums are held back in steps in which something may
  // have to be allocated.
  void HoldBack(bool held) { held_ = held; }

  // Begins a step; SetGradients then says where each variable's gradient is (data is null if it has
  // none).
  void Begin();
  void SetGradients(std::vector<DeviceFloats> gradients) { gradients_ = std::move(gradients); }
  // The variable's gradient is final: it joins the current bucket, which is summed when it is large
  // enough.
  void Final(size_t variable);
  // Ends the step. Gradients that did not become final, because the replica had no examples or
  // failed, take part as zeros.
  void End();
  // False between Begin and End, while other replicas still wait for sums of this one.
  bool ended() const { return ended_; }

  // Takes the order of the last step, in which every gradient was final, as the order of all later
  // steps. Called once.
  void Learn() { order_ = done_; }

 private:
  void Flush();

  Ops& ops_;
  GroupOps& group_;
  const std::function<void()> meet_;
  const std::function<void(size_t)> download_;
  bool held_ = false;
  std::vector<size_t> order_;
  // State of one step.
  std::vector<DeviceFloats> gradients_;
  std::vector<size_t> done_, waiting_;
  size_t waiting_bytes_ = 0;
  bool ended_ = true;
};

}  // namespace paracord
