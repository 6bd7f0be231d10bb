// A Keras program on several devices of this process. Each replica computes a part of every batch
// on its own device and thread, with equal parameters; the devices add the gradients, and the
// caller gets the gradients of the whole batch. BatchNormalization sees its device's part only,
// like single slices with `accumulate`. Evaluation is shared alike; the first device predicts
// alone. Used by one thread at a time; a call starts and joins the other replicas' threads.
#pragma once

#include <memory>
#include <vector>

#include "program/gradient_program.h"
#include "tensor/group_ops.h"

namespace paracord {

class KerasProgram;

// Builds the job's program with a replica on each device of a group. Errors are those of
// BuildKerasProgram.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildReplicas(const Job& job, const Batch& schema,
                                                               std::vector<Replica> replicas);

// Joins programs built as parts of each other (build.cc), in the order of their parts. `batch` is
// the number of examples of an update, for messages. After a replica fails and leaves others
// waiting, the group is aborted and every later call returns DATA_LOSS.
struct ReplicaPart {
  std::unique_ptr<KerasProgram> program;
  GroupOps* group = nullptr;
};
std::unique_ptr<GradientProgram> MakeReplicas(std::unique_ptr<class PartSum> sums,
                                              std::vector<ReplicaPart> parts, uint32_t batch);

}  // namespace paracord
