// Tells whether a variable may be updated by the rows of a batch alone, and makes a table of one as
// a job says. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "config/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

// True if an update leaves elements with gradient 0 unchanged, so that pushing the rows of a batch
// equals, to the bit, pushing the whole gradient: SGD without momentum or Adagrad, without weight
// decay, averages and constraints. `optimizer` is the table's own or the job's; false if it cannot
// be parsed. If false, a ps refuses rows unless the table is lazy.
bool LeavesUntouchedAlone(const NamedSpec& optimizer, const VariableSpec& variable);
// Says for people why an update of a batch's rows alone differs from an update of all rows; "" if
// it does not, for a variable without averages and constraints.
std::string WhyRowsDiffer(const NamedSpec& optimizer);

// Returns the spec of a table that is not dense from the job's `tables`.
TableSpec TableSpecOf(const TablesSpec::Table& wanted);
// Makes the variable a growing table of `shards` shards. Where its initializer scales by the number
// of rows, the present rows count.
void MakeGrowing(VariableSpec& variable, uint64_t shards);

}  // namespace paracord
