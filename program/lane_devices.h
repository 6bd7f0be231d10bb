// The devices of a worker that computes lanes of a round: a gradient program for each device, all
// of one model. The lanes of a run are computed side by side, each lane whole on one device, and
// their gradients are added in the tree of exchange/lane_sum.h. Hence neither the number of devices
// nor the choice of the adding thread changes a bit. Devices with a DeviceSum add up dense
// gradients themselves, in an order of their own. Used by one thread at a time, which computes the
// first lane itself.
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
  MutableTensors arrays;  // indexed by variable; empty for untrained variables
  std::shared_ptr<const TableRows> rows = nullptr;  // table rows held by `arrays`
};

// The sums of tables, over the union of the lanes' rows.
struct LaneRowSums {
  std::shared_ptr<const TableRows> rows;  // null: the model has no tables
  // Indexed by variable; in the order of the ids; empty: no table.
  std::vector<std::vector<float>> values;
};

class LaneDevices {
 public:
  // `first` outlives the devices. `reduction` chooses a thread for each pair of lanes, or a single
  // one. `sum`, shared with the programs that take part in it, may be null.
  LaneDevices(GradientProgram& first, std::vector<std::unique_ptr<GradientProgram>> others,
              CrossDeviceOps reduction, std::shared_ptr<DeviceSum> sum = nullptr);
  ~LaneDevices();

  size_t size() const { return programs_.size(); }
  // The sum of the first devices; null: all gradients are added up here.
  DeviceSum* sum() const { return sum_.get(); }
  // Calls compute(lane, program) for lanes 0 to `lanes` - 1, each with a program of its own, in
  // parallel, and returns when all calls have. At most size() lanes.
  void ForLanes(size_t lanes,
                const std::function<void(size_t lane, GradientProgram& program)>& compute);
  // Which variables AddUp adds up: not the dense ones where the DeviceSum has.
  enum class Variables { kAll, kTables };
  // Adds up the gradients of a run of lanes, a power of two and at most size(). Leaves the sums of
  // dense variables in the arrays of the first lane, the other arrays undefined, and returns the
  // sums of tables.
  LaneRowSums AddUp(std::span<const LaneGradients> lanes, Variables which = Variables::kAll);

 private:
  void InThreads(size_t count, const std::function<void(size_t)>& body);

  const CrossDeviceOps reduction_;
  const std::shared_ptr<DeviceSum> sum_;
  std::vector<GradientProgram*> programs_;
  const std::vector<std::unique_ptr<GradientProgram>> others_;
  std::vector<std::unique_ptr<WorkThread>> threads_;  // one fewer than programs
};

}  // namespace paracord
