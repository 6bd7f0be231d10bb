// Devices of a worker that add up the gradients of a run of lanes themselves, so that one sum
// leaves the devices and not a gradient of each lane. Every device has to take part in every sum,
// or the other devices wait for it without end. Begin is called by the thread that calls
// LaneDevices::ForLanes; between two calls of Begin each device is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace paracord {

// A lane whose gradients are added up.
struct LaneShare {
  uint32_t examples = 0;  // of the lane's batch
  float factor = 1;       // multiplies the lane's gradients
};

class DeviceSum {
 public:
  virtual ~DeviceSum() = default;
  // The number of devices that add up, the first ones of the worker; a power of two.
  virtual size_t devices() const = 0;
  // Has the next ComputeGradients of device i, for each of `lanes`, add its gradients, times the
  // factor of lanes[i], to those of the other devices. The first device writes the sums of dense
  // variables to its gradients, where the other devices write nothing. Each device writes the
  // gradients of tables, times its factor, to its own arrays, because the rows of lanes differ.
  // Later computations of a device, and those of devices beyond `lanes`, add up nothing. At most
  // devices() lanes.
  virtual void Begin(std::span<const LaneShare> lanes) = 0;
  // Called on the thread of each device of the sum after its ComputeGradients, or in place of a
  // ComputeGradients: a device that has not taken part yet takes part with zeros. An error makes
  // the sums void. A device that fails in the middle of a sum, which the other devices then cannot
  // end, ends the sum for good: ComputeGradients of all lanes returns DATA_LOSS, then and later,
  // with a message that names all devices and the one at fault.
  virtual absl::Status Complete(size_t device) = 0;
};

}  // namespace paracord
