// Devices of a worker that add up the gradients of a run of lanes (2, 4, 8, ... neighbouring lanes
// of a round), so that only the sum has to be copied from the devices. Each of the devices() has to
// take part in every sum, by ComputeGradients of the device's GradientProgram or by Complete;
// otherwise the other devices wait without end. Begin is called by the thread that calls
// LaneDevices::ForLanes; between two calls of Begin each device is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace paracord {

// A lane whose gradients are added up.
struct LaneShare {
  uint32_t examples = 0;  // the number of examples in the lane's batch
  float factor = 1;       // multiplies the lane's gradients
};

class DeviceSum {
 public:
  virtual ~DeviceSum() = default;
  // How many devices take part in a sum, a power of two. They are the first devices of the worker.
  virtual size_t devices() const = 0;
  // Begins a sum: the next ComputeGradients of device i computes lanes[i], multiplies the gradients
  // by the factor of lanes[i], and adds the gradients of variables that are no tables to those of
  // the other devices. The first device writes the sums to its `gradients`; the other devices write
  // none. Each device writes its own gradients of tables, because the rows of lanes differ. Until
  // the next Begin, further calls of ComputeGradients of a device, and calls for devices beyond
  // `lanes`, are not added up. `lanes` has at most devices() elements.
  virtual void Begin(std::span<const LaneShare> lanes) = 0;
  // Called once after each Begin for every device, on the device's thread, after the device's
  // ComputeGradients or in place of it: a device that has not taken part yet adds zeros. If
  // Complete returns an error for any device, the sums are undefined. If a device fails in the
  // middle of a sum, no sum is possible any more: from then on ComputeGradients of a lane in a sum,
  // and Complete of a device that has not taken part, return DATA_LOSS, with a message that names
  // all devices and the device at fault.
  virtual absl::Status Complete(size_t device) = 0;
};

}  // namespace paracord
