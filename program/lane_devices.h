// The devices of a worker that computes lanes of a round: a gradient program for each device, all
// of one model. The lanes are computed side by side, each lane whole on one device. AddUp adds up
// the gradients of a run of lanes (2, 4, 8, ... neighbouring lanes of a round) pair by pair, in the
// order that exchange/lane_sum.h defines. Hence neither the number of devices nor the choice of the
// threads that add changes a bit of the sums. A DeviceSum instead adds up the gradients of
// variables that are no tables, in an order of its own, which may change bits. Used by one thread
// at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/work_thread.h"
#include "config/job.h"
#include "program/device_sum.h"
#include "program/gradient_program.h"

namespace paracord {

// The gradients of a lane.
struct LaneGradients {
  MutableTensors arrays;  // an array for each variable; empty for untrained variables
  std::shared_ptr<const TableRows> rows = nullptr;  // the rows of tables in `arrays`
};

// The summed gradients of tables.
struct LaneRowSums {
  std::shared_ptr<const TableRows> rows;  // the rows of all lanes; null: the model has no tables
  // For each trained table the sums for `rows`, in the order of the ids; empty for other variables.
  std::vector<std::vector<float>> values;
};

class LaneDevices {
 public:
  // `first`, the program of the first device, must outlive this object. `reduction`: whether AddUp
  // adds in several threads or in the calling thread alone. `sum` may be null.
  LaneDevices(GradientProgram& first, std::vector<std::unique_ptr<GradientProgram>> others,
              CrossDeviceOps reduction, std::shared_ptr<DeviceSum> sum = nullptr);
  ~LaneDevices();

  size_t size() const { return programs_.size(); }
  // Returns null if there is no DeviceSum.
  DeviceSum* sum() const { return sum_.get(); }
  // Calls compute(lane, program) for lanes 0 to `lanes` - 1, each with a program of its own, in
  // parallel, and returns when all calls have returned. `lanes` is at most size().
  void ForLanes(size_t lanes,
                const std::function<void(size_t lane, GradientProgram& program)>& compute);
  // Whose gradients AddUp adds up. kTables: only those of tables, because the DeviceSum has added
  // up the gradients of the other variables.
  enum class Variables { kAll, kTables };
  // Adds up the gradients of a run of at most size() lanes, in ascending order. Leaves the sums of
  // variables that are no tables in the arrays of the first lane, and returns the sums of tables.
  // The contents of the other lanes' arrays are undefined afterwards.
  LaneRowSums AddUp(std::span<const LaneGradients> lanes, Variables which = Variables::kAll);

 private:
  void InThreads(size_t count, const std::function<void(size_t)>& body);

  const CrossDeviceOps reduction_;
  const std::shared_ptr<DeviceSum> sum_;
  std::vector<GradientProgram*> programs_;
  const std::vector<std::unique_ptr<GradientProgram>> others_;
  std::vector<std::unique_ptr<WorkThread>> threads_;  // a thread for each of others_
};

}  // namespace paracord
