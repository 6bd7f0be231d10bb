// One Keras program on several devices of this process: each computes a part of every batch, in a
// thread of its own, with the same parameters; the gradients are added on the devices, and what the
// caller gets is that of the whole batch. What looks at a whole batch (BatchNormalization) sees its
// device's part, as slices of `accumulate` do. Evaluation is shared in the same way; a
// prediction is the first device's.
#pragma once

#include <memory>
#include <vector>

#include "program/gradient_program.h"
#include "tensor/group_ops.h"

namespace paracord {

class KerasProgram;

// As BuildKerasProgram, over a group.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildReplicas(const Job& job, const Batch& schema,
                                                               std::vector<Replica> replicas);

// Of programs that were built to be parts of each other, in order (keras_build.cc).
struct ReplicaPart {
  std::unique_ptr<KerasProgram> program;
  GroupOps* group = nullptr;
};
std::unique_ptr<GradientProgram> MakeReplicas(std::unique_ptr<class PartSum> sums,
                                              std::vector<ReplicaPart> parts, uint32_t batch);

}  // namespace paracord
