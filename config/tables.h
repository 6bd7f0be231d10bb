// Tells whether a variable may be updated by the rows of a batch alone. Pure functions, any thread.
#pragma once

#include "config/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

// True if an update leaves elements whose gradient is 0 as they are, so that a push of the rows of
// a batch does to the bit what a push of the whole gradient does: SGD without momentum or Adagrad,
// without weight decay, averages, constraints. `optimizer` is the table's own or the job's. False
// for an optimizer that cannot be parsed. A ps refuses rows where this is false, unless the table
// is lazy.
bool LeavesUntouchedAlone(const NamedSpec& optimizer, const VariableSpec& variable);

}  // namespace paracord
