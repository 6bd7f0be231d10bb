// Tells whether an update may change only the rows of a variable that a batch reads, and makes a
// variable the table that a job asks for. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "config/job.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Whether an update leaves elements with gradient 0 unchanged, so that pushing the rows of a batch
// equals, to the bit, pushing the whole gradient: SGD without momentum or Adagrad, without weight
// decay, averages and constraints. `optimizer` is the table's or, if the table has none, the job's;
// the result is false if its options are no object.
bool LeavesUntouchedAlone(const NamedSpec& optimizer, const VariableSpec& variable);
// Says for people why an update of a batch's rows alone differs from an update of all rows; "" if
// it does not. Does not consider averages and constraints of the variable.
std::string WhyRowsDiffer(const NamedSpec& optimizer);

// Returns the spec of a table from the settings that a job has for the layer.
TableSpec TableSpecOf(const TablesSpec::Table& wanted);
// Makes the variable a growing table of `shards` shards. An initializer that depends on the number
// of rows keeps to the number of rows before the call.
void MakeGrowing(VariableSpec& variable, uint64_t shards);

}  // namespace paracord
