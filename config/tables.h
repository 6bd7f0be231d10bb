// Tells whether an update may change only the rows of a variable that a batch reads, and makes a
// variable the table that a job asks for. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "config/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

// True if an update leaves elements with gradient 0 unchanged, so that pushing the rows of a batch
// equals, to the bit, pushing the whole gradient: SGD without momentum or Adagrad, without weight
// decay, averages and constraints. `optimizer` is the optimizer of the table or, if it has none, of
// the job; false if its options are no object. If the result is false, a ps refuses rows unless the
// table is lazy.
bool LeavesUntouchedAlone(const NamedSpec& optimizer, const VariableSpec& variable);
// Says for people why an update of a batch's rows alone differs from an update of all rows; "" if
// it does not. Averages and constraints of the variable are left aside.
std::string WhyRowsDiffer(const NamedSpec& optimizer);

// Returns the spec for a layer that is a table, from the settings in the job.
TableSpec TableSpecOf(const TablesSpec::Table& wanted);
// Makes the variable a growing table of `shards` shards. An initializer that scales by the number
// of rows goes on with the number of rows before the call.
void MakeGrowing(VariableSpec& variable, uint64_t shards);

}  // namespace paracord
