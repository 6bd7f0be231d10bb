// What several devices of one process do together: they add up what each has. The Ops of a device
// that belongs to a group is one of these, too (device.h). Used as its Ops is, but for Abort.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tensor/ops.h"

namespace paracord {

struct DeviceFloats {
  float* data = nullptr;  // of the device
  int64_t n = 0;
};

class GroupOps {
 public:
  virtual ~GroupOps() = default;
  // In place the sums over the group, of which all ask for the same in the same order. Beside what
  // is computed later; what is downloaded later waits. Asked for even after an error, so that the
  // others need not wait for ever.
  virtual void AllReduce(std::span<const DeviceFloats> arrays) = 0;
  // From any thread: whoever waits for the group, or asks it for something, fails from now on with
  // DATA_LOSS.
  virtual void Abort() = 0;
};

// Of a group; `group` is the same object, or null where there is none.
struct Replica {
  std::unique_ptr<Ops> ops;
  GroupOps* group = nullptr;
};

}  // namespace paracord
