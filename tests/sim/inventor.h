// A lying worker of a simulated cluster. Joins with the facts of an honest worker, computes
// nothing, and reports batches that it was never given, with losses and metrics that would spoil
// the history of the epochs. Lives on the loop of its process, which owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/environment.h"
#include "common/gate.h"
#include "proto/paracord.pb.h"
#include "sim/world/sim_random.h"

namespace paracord {

class Inventor {
 public:
  // `facts` describe the job's data and model; `plan` and `epochs` determine the batches. The
  // inventor calls `exit` with an exit code when the coordinator sends the worker away.
  Inventor(std::string coordinator, JobFacts facts, DataPlan plan, uint64_t epochs,
           Environment environment, SimRandom chance, std::function<void(int)> exit);
  void Start() { Join(); }

 private:
  void Join();
  void Joined(const absl::StatusOr<JoinReply>& reply);
  void Lie();
  void Answered(const absl::StatusOr<WorkReply>& reply);
  void Later(void (Inventor::*then)());

  JobFacts facts_;
  const DataPlan plan_;
  const uint64_t epochs_;
  const Environment environment_;
  SimRandom chance_;
  const std::function<void(int)> exit_;
  const std::string boot_id_;
  const std::unique_ptr<Link> coordinator_;
  uint64_t session_ = 0;
  uint64_t reports_ = 0;
  const Gate gate_;
};

}  // namespace paracord
