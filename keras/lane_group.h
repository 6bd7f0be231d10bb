// Keras programs on several devices of this process, each of which computes lanes of its own. The
// devices can add up the gradients of lanes by NCCL (DeviceSum), or compute alone. Each program is
// used by one thread at a time. The group is shared by its programs and by whoever begins sums.
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
  // `devices` are the names of the devices by rank, for messages.
  explicit LaneGroup(std::vector<std::string> devices);

  // Makes a program of the group's next rank, from one built with this rank, `group` and meets().
  static std::unique_ptr<GradientProgram> Join(const std::shared_ptr<LaneGroup>& lanes,
                                               std::unique_ptr<KerasProgram> program,
                                               GroupOps* group);
  PartSum& meets() { return meets_; }  // where threads of the devices wait for each other

  size_t devices() const override { return names_.size(); }
  void Begin(std::span<const LaneShare> lanes) override;
  absl::Status Complete(size_t device) override;

 private:
  friend class LaneProgram;

  struct Member {
    KerasProgram* program = nullptr;
    GroupOps* group = nullptr;
    bool tables = false;
    bool joins = false;      // the next ComputeGradients takes part in the sum
    bool owes = false;       // the sum that was begun lacks the device
    bool disturbed = false;  // since the last Begin it failed, or computed something else
    uint32_t examples = 0;   // in the last sum
  };

  absl::StatusOr<double> Compute(Member& member, const Batch& batch, uint64_t batch_key,
                                 ConstTensors values, MutableTensors gradients);
  void TookPart(Member& member, const absl::Status& status);
  absl::Status lost();

  const std::vector<std::string> names_;
  PartSum meets_;
  std::vector<Member> members_;  // by rank; each is used by the thread of its device
  int alike_ = 0;                // consecutive sums of equal batches that nothing disturbed
  Mutex mu_;
  absl::Status lost_ ABSL_GUARDED_BY(mu_);  // set for good once the group is lost
};

struct LanePrograms {
  std::vector<std::unique_ptr<GradientProgram>> programs;  // by device
  std::shared_ptr<DeviceSum> sum;
};

// Builds the job's program on each device of a group, whose names are `devices`. Errors are those
// of BuildKerasProgram.
absl::StatusOr<LanePrograms> BuildLanes(const Job& job, const Batch& schema,
                                        std::vector<Replica> replicas,
                                        const std::vector<std::string>& devices);

}  // namespace paracord
