// Adds the gradients of a replica (for its part of a batch, or for a lane of its own) over all
// replicas. Final gradients are summed in buckets while others are still being computed, and the
// first replica downloads the sums. All replicas must issue equal all-reduces in equal order, even
// after an error. Owned by the program; used by the program's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "tensor/group_ops.h"

namespace paracord {

// This many equal steps in a row may still allocate: the host's staging memory grows in pieces in
// the first step and as a whole in the second.
inline constexpr int kNewSteps = 3;

class GradientSum {
 public:
  // How the next steps use the sum.
  struct Use {
    // False: the replica computes a step alone, and downloads its own gradients.
    bool adds = true;
    // Whether steps issue sums only at their end, between two barriers; all replicas must agree. An
    // all-reduce occupies the device until the other replicas' devices take part. A replica that
    // allocates memory or loads code meanwhile may wait for its device to become idle and never
    // reach its own all-reduce: a deadlock. Hence sums are held back in steps that may still
    // allocate.
    bool held = false;
    float factor = 1;  // multiplies every gradient of the replica, before the sum
  };
  // A variable's gradient on the device. Null data: the variable has none. Gradients that are not
  // `added` are downloaded by their own replica.
  struct Gradient : DeviceFloats {
    bool added = true;
  };

  // `meet` is a barrier: returns when all replicas have called, or once a replica has failed.
  // `download` is called with each variable whose sum was issued, if the replica `receives` the
  // sums, and with each variable that is not added.
  GradientSum(Ops& ops, GroupOps& group, bool receives, std::function<void()> meet,
              std::function<void(size_t)> download)
      : ops_(ops),
        group_(group),
        receives_(receives),
        meet_(std::move(meet)),
        download_(std::move(download)) {}

  void SetUse(const Use& use) { use_ = use; }

  // Begins a step; SetGradients then names the memory of each variable's gradient.
  void Begin();
  void SetGradients(std::vector<Gradient> gradients) { gradients_ = std::move(gradients); }
  // The variable's gradient is final: joins the current bucket, summed when large enough.
  void Final(size_t variable);
  // Ends the step. Gradients that did not become final, because the replica had no examples or
  // failed, are summed as zeros.
  void End();
  // False between Begin and End, while other replicas still wait for this replica's sums.
  bool ended() const { return ended_; }
  // Leaves the step open for good: its sums were lost.
  void Lose() { ended_ = false; }

  // Fixes the last step's order, in which every gradient was final, for all later steps. Called
  // once.
  void Learn() { order_ = done_; }

 private:
  void Join(size_t variable);
  void Flush();

  Ops& ops_;
  GroupOps& group_;
  const bool receives_;
  const std::function<void()> meet_;
  const std::function<void(size_t)> download_;
  Use use_;
  std::vector<size_t> order_;
  // State of a step.
  std::vector<Gradient> gradients_;
  std::vector<size_t> done_, waiting_;
  size_t waiting_bytes_ = 0;
  bool ended_ = true;
};

}  // namespace paracord
