// The devices of a worker that computes lanes of a round: one gradient program for each, all of the
// same model. The lanes of a run are computed side by side, each lane whole on one device, and
// their gradients are added up in the tree of exchange/lane_sum.h. So neither the number of devices
// nor who adds changes a bit. Used by one thread at a time, which computes the first lane itself.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/work_thread.h"
#include "config/job.h"
#include "program/gradient_program.h"

namespace paracord {

// The gradients of a lane.
struct LaneGradients {
  MutableTensors arrays;  // by variable; empty where the variable is not trained
  std::shared_ptr<const TableRows> rows = nullptr;  // of tables, that the arrays have
};

// The sums of tables, whose rows are those of any of the lanes.
struct LaneRowSums {
  std::shared_ptr<const TableRows> rows;   // null: the model has no tables
  std::vector<std::vector<float>> values;  // by variable, in the order of the ids; empty: no table
};

class LaneDevices {
 public:
  // `first` outlives it. `reduction` says who adds: a thread for each pair of lanes, or one alone.
  LaneDevices(GradientProgram& first, std::vector<std::unique_ptr<GradientProgram>> others,
              CrossDeviceOps reduction);
  ~LaneDevices();

  size_t size() const { return programs_.size(); }
  // Calls compute(lane, program) for lanes 0 to `lanes` - 1, each with a program of its own and at
  // the same time, and returns when all calls have. At most size() lanes.
  void ForLanes(size_t lanes,
                const std::function<void(size_t lane, GradientProgram& program)>& compute);
  // Adds up the gradients of a run of lanes, whose number is a power of two and at most size(). The
  // sums of dense variables are in the arrays of the first lane then; those of the others are
  // undefined. The sums of tables are returned.
  LaneRowSums AddUp(std::span<const LaneGradients> lanes);

 private:
  void InThreads(size_t count, const std::function<void(size_t)>& body);

  const CrossDeviceOps reduction_;
  std::vector<GradientProgram*> programs_;
  const std::vector<std::unique_ptr<GradientProgram>> others_;
  std::vector<std::unique_ptr<WorkThread>> threads_;  // one fewer than there are programs
};

}  // namespace paracord
