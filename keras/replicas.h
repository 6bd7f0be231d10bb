// A Keras program on several devices of this process. Each replica computes a part of every batch
// on its own device and thread, with equal parameters; the devices add up the gradients, and the
// caller gets the gradients of the whole batch. BatchNormalization sees one device's part, as with
// `accumulate` it sees one slice. An evaluation is divided among the replicas, too; the first
// device predicts alone. Used by one thread at a time, which computes the first part;
// ComputeGradients and Evaluate start and join a thread for each other part.
#pragma once

#include <memory>
#include <vector>

#include "program/gradient_program.h"
#include "tensor/group_ops.h"

namespace paracord {

class KerasProgram;

// Builds the job's program on `replicas`, the members of a group. Errors are those of
// BuildKerasProgram, and INVALID_ARGUMENT if a batch has fewer examples than there are replicas.
absl::StatusOr<std::unique_ptr<GradientProgram>> BuildReplicas(const Job& job, const Batch& schema,
                                                               std::vector<Replica> replicas);

struct ReplicaPart {
  std::unique_ptr<KerasProgram> program;
  GroupOps* group = nullptr;
};
// Joins programs that were built as parts of one program (build.cc), in the order of the parts.
// `batch` is the job's batch size, for the text of Memory(). Once a replica has failed in
// ComputeGradients and left others waiting, the group is aborted, and ComputeGradients and Evaluate
// return DATA_LOSS for good.
std::unique_ptr<GradientProgram> MakeReplicas(std::unique_ptr<class PartSum> sums,
                                              std::vector<ReplicaPart> parts, uint32_t batch);

}  // namespace paracord
