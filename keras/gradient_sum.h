// The gradients of a replica's part of a batch on their way out: as they are done they are added
// over all replicas, several at a time, and the first replica brings them to the host. All ask for
// the same, in the same order, whatever becomes of a step. Owned by the program; one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "tensor/group_ops.h"

namespace paracord {

class GradientSum {
 public:
  // `meet` returns when all replicas have come to it, or none will any more. `download` is called
  // of each variable when its sum was asked for.
  GradientSum(Ops& ops, GroupOps& group, std::function<void()> meet,
              std::function<void(size_t)> download)
      : ops_(ops), group_(group), meet_(std::move(meet)), download_(std::move(download)) {}

  // Of the next steps, the same for all replicas: whether sums are asked for only at the end, when
  // all have come there. On a device a sum waits for those of the others and lets nothing else end.
  // Another thread that allocates or loads code meanwhile may wait for that device, and never come
  // to its own sum; so this is for steps in which there may be something to allocate.
  void HoldBack(bool held) { held_ = held; }

  // Of a step: it begins, and where the gradients are, by variable; null data: none.
  void Begin();
  void SetGradients(std::vector<DeviceFloats> gradients) { gradients_ = std::move(gradients); }
  // The variable's is done.
  void Final(size_t variable);
  // What was not done, for want of examples or because of an error, counts as zeros.
  void End();
  // False between Begin and End: others wait for more.
  bool ended() const { return ended_; }

  // The order that all keep to is that of a step in which every gradient was done. Once.
  void Learn() { order_ = done_; }

 private:
  void Flush();

  Ops& ops_;
  GroupOps& group_;
  const std::function<void()> meet_;
  const std::function<void(size_t)> download_;
  bool held_ = false;
  std::vector<size_t> order_;
  // Of a step.
  std::vector<DeviceFloats> gradients_;
  std::vector<size_t> done_, waiting_;
  size_t waiting_bytes_ = 0;
  bool ended_ = true;
};

}  // namespace paracord
