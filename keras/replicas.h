// One Keras program on several devices of this process. Each replica computes a part of every batch
// on its own device, in its own thread, with the same parameters; the devices add up the gradients,
// and the caller gets the gradients of the whole batch. BatchNormalization sees the part of its
// device, as it sees single slices with `accumulate`. Evaluation is shared in the same way;
// prediction is done by the first device alone. Used by one thread at a time; a call starts and
// joins the other replicas' threads.
#pragma once

#include <memory>
#include <vector>

#include "program/gradient_program.h"
#include "tensor/group_ops.h"

namespace paracord {

class KerasProgram;

// Builds the job's program like BuildKerasProgram, with one replica on each device of a group.
// Errors are those of BuildKerasProgram.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildReplicas(const Job& job, const Batch& schema,
                                                               std::vector<Replica> replicas);

// Joins programs that were built as parts of each other (build.cc), in the order of their parts.
// `batch` is the number of examples of an update, for messages. After a replica fails in a way that
// leaves the others waiting, the group is aborted and every later call returns DATA_LOSS.
struct ReplicaPart {
  std::unique_ptr<KerasProgram> program;
  GroupOps* group = nullptr;
};
std::unique_ptr<GradientProgram> MakeReplicas(std::unique_ptr<class PartSum> sums,
                                              std::vector<ReplicaPart> parts, uint32_t batch);

}  // namespace paracord
