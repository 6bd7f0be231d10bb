// Adds up gradients over replicas: programs of one model on several GPUs, each with a part of every
// batch or with a lane of its own. Complete gradients are collected in buckets, and a full bucket
// is summed by an all-reduce while other gradients are still being computed. The first replica
// downloads the sums. All replicas must issue the same all-reduces in the same order, even after an
// error. Each replica's program owns a GradientSum, and uses it on the program's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "tensor/group_ops.h"

namespace paracord {

// Among consecutive steps with batches of equal sizes, the first kNewSteps may still allocate
// memory: the host's staging memory grows piece by piece in the first step, and is replaced by a
// single block in the second.
inline constexpr int kNewSteps = 3;

class GradientSum {
 public:
  // How the next steps use the sum.
  struct Use {
    // False: the replica takes part in no sum, and downloads its own gradients.
    bool adds = true;
    // True: a step issues its sums only at its end, between two barriers; all replicas must have
    // the same value. An all-reduce occupies a device until all replicas' devices take part. A
    // replica that allocates memory or loads code meanwhile may wait for its own device to become
    // idle and never issue its all-reduce: a deadlock. Hence steps that may still allocate are
    // held.
    bool held = false;
    float factor = 1;  // multiplies every gradient of the replica, before the sum
  };
  // A variable's gradient on the device; `data` is null if the variable has no gradient. A gradient
  // with `added` false is not summed: each replica downloads its own gradient.
  struct Gradient : DeviceFloats {
    bool added = true;
  };

  // `meet` is a barrier: it returns when all replicas have called it, or once a replica has failed.
  // `download` starts the download of a variable's gradient. It is called for each gradient that is
  // not summed and, if the replica `receives` the sums, for each sum that was issued.
  GradientSum(Ops& ops, GroupOps& group, bool receives, std::function<void()> meet,
              std::function<void(size_t)> download)
      : ops_(ops),
        group_(group),
        receives_(receives),
        meet_(std::move(meet)),
        download_(std::move(download)) {}

  void SetUse(const Use& use) { use_ = use; }

  // Begins a step; SetGradients then gives the gradients' memory, one entry for each variable.
  void Begin();
  void SetGradients(std::vector<Gradient> gradients) { gradients_ = std::move(gradients); }
  // Called when the variable's gradient is complete: multiplies it by Use::factor, and sums or
  // downloads it.
  void Final(size_t variable);
  // Ends the step. Gradients for which Final was not called, because the replica had no examples or
  // failed, are summed as zeros, in the order that Learn remembered.
  void End();
  // False while other replicas wait for this replica, from Begin to End of a step with sums, and
  // after Lose.
  bool ended() const { return ended_; }
  // Called when an error of the device has made the step's sums unusable: ended() stays false until
  // the next Begin.
  void Lose() { ended_ = false; }

  // Remembers the order of the calls of Final in the last step, in which every summed gradient had
  // a call. Called once.
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
  // The state of the current step.
  std::vector<Gradient> gradients_;
  std::vector<size_t> done_, waiting_;
  size_t waiting_bytes_ = 0;
  bool ended_ = true;
};

}  // namespace paracord
