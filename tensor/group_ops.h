// Collective operations over several devices of one process: their arrays are added up. The Ops of
// a device that belongs to a group also implements GroupOps. It is used by the thread that uses the
// Ops, except for Abort.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tensor/ops.h"

namespace paracord {

struct DeviceFloats {
  float* data = nullptr;  // in the device's memory
  int64_t n = 0;
};

class GroupOps {
 public:
  virtual ~GroupOps() = default;
  // Replaces each array by its sum over the group, in place. All members must ask for the same
  // arrays in the same order. The sum overlaps with operations issued later; downloads issued later
  // wait for it. It is issued even after an error, so that the other members do not wait forever.
  virtual void AllReduce(std::span<const DeviceFloats> arrays) = 0;
  // Gives the group up. It may be called from any thread: whoever waits for the group, or asks it
  // for something later, fails with DATA_LOSS.
  virtual void Abort() = 0;
};

// One member of a group. `group` is the same object as `ops`, or null if there is no group.
struct Replica {
  std::unique_ptr<Ops> ops;
  GroupOps* group = nullptr;
};

}  // namespace paracord
