// Tells whether a variable may be updated by the rows of a batch alone, and makes a table of one as
// a job says. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "config/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

// True if an update leaves elements whose gradient is 0 as they are, so that a push of the rows of
// a batch does to the bit what a push of the whole gradient does: SGD without momentum or Adagrad,
// without weight decay, averages, constraints. `optimizer` is the table's own or the job's. False
// for an optimizer that cannot be parsed. A ps refuses rows where this is false, unless the table
// is lazy.
bool LeavesUntouchedAlone(const NamedSpec& optimizer, const VariableSpec& variable);
// Says for people why an update of the rows of a batch alone is not one of all rows; "" if it is,
// for a variable without averages and constraints.
std::string WhyRowsDiffer(const NamedSpec& optimizer);

// Returns what the job's `tables` say of one that is not dense.
TableSpec TableSpecOf(const TablesSpec::Table& wanted);
// Makes the variable a growing table of so many shards. The rows that it had stand in where its
// initializer asks for their number.
void MakeGrowing(VariableSpec& variable, uint64_t shards);

}  // namespace paracord
