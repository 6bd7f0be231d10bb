// Inputs of a model that are ids of rows: which of them are of tables so large that float32 does
// not tell their rows apart. The ids of such a table come as numbers of their own kind (row_ids.h),
// so that nothing but the table may read them.
#pragma once

#include <cstdint>
#include <vector>

#include "keras/json.h"

namespace paracord {

// Whether the node is an Embedding of so many rows.
bool IsLargeTable(const ModelSpec& model, const NodeSpec& node);

// An input that is read both by large tables and by others becomes two inputs, of the same column
// of the data. `columns`: of each input.
void SplitIdInputs(ModelSpec& model, std::vector<size_t>& columns);

}  // namespace paracord
