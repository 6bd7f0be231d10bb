// Collective operations: add up arrays over several devices of a process. The Ops of a device in a
// group also implements GroupOps. Used by the thread of the Ops, except for Abort.
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
  // Replaces each array by its sum over the group, in place. All members must pass corresponding
  // arrays in equal order. The sum overlaps with operations issued later; downloads issued later
  // wait for the sum. Issued even after an error, to keep the other members from waiting forever.
  virtual void AllReduce(std::span<const DeviceFloats> arrays) = 0;
  // Gives the group up on this device, from any thread; called for every member. Calls on this
  // device that wait for other members return, and from then on its Ops::Finish returns DATA_LOSS.
  virtual void Abort() = 0;
};

// A member of a group. `ops` and `group` point to the same object.
struct Replica {
  std::unique_ptr<Ops> ops;
  GroupOps* group = nullptr;
};

}  // namespace paracord
