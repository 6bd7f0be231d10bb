// Keras programs on several devices of this process, each of which computes lanes of its own. The
// devices add up the gradients of lanes by NCCL (DeviceSum). Each program is used by one thread at
// a time. The programs and the caller of DeviceSum share ownership of the group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "config/job.h"
#include "keras/part_sum.h"
#include "program/device_sum.h"
#include "program/gradient_program.h"
#include "tensor/group_ops.h"

namespace paracord {

class KerasProgram;

class LaneGroup : public DeviceSum {
 public:
  // `devices` has the names of the devices, for errors; a device's index is its rank.
  explicit LaneGroup(std::vector<std::string> devices);

  // Makes the program of the next rank, from a KerasProgram that was built with that rank, `group`
  // and meets(). Called for rank 0 first.
  static std::unique_ptr<GradientProgram> Join(const std::shared_ptr<LaneGroup>& lanes,
                                               std::unique_ptr<KerasProgram> program,
                                               GroupOps* group);
  PartSum& meets() { return meets_; }  // the barrier of the devices' threads

  size_t devices() const override { return names_.size(); }
  void Begin(std::span<const LaneShare> lanes) override;
  absl::Status Complete(size_t device) override;

 private:
  friend class LaneProgram;

  struct Member {
    KerasProgram* program = nullptr;
    GroupOps* group = nullptr;
    bool tables = false;
    bool joins = false;      // the device's next ComputeGradients takes part in the sum
    bool owes = false;       // the device has not yet taken part in the sum of the last Begin
    bool disturbed = false;  // since the last Begin the device failed, or computed outside of sums
    uint32_t examples = 0;   // the number of examples of the device's batch in the last sum
  };

  absl::StatusOr<double> Compute(Member& member, const Batch& batch, uint64_t batch_key,
                                 ConstTensors values, MutableTensors gradients);
  void TookPart(Member& member, const absl::Status& status);
  absl::Status lost();

  const std::vector<std::string> names_;
  PartSum meets_;
  std::vector<Member> members_;  // indexed by rank; used by the thread of the member's device
  // How many sums in a row, up to kNewSteps, had equal `examples`, no `disturbed` and no `tables`.
  int alike_ = 0;
  Mutex mu_;
  absl::Status lost_ ABSL_GUARDED_BY(mu_);  // not OK: the group is lost for good
};

struct LanePrograms {
  std::vector<std::unique_ptr<GradientProgram>> programs;  // one for each device
  std::shared_ptr<DeviceSum> sum;
};

// Builds the job's program on each of `replicas`, the members of a group, whose devices have the
// names `devices`. Errors are those of BuildKerasProgram.
absl::StatusOr<LanePrograms> BuildLanes(const Job& job, const Batch& schema,
                                        std::vector<Replica> replicas,
                                        const std::vector<std::string>& devices);

}  // namespace paracord
