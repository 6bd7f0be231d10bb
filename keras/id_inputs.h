// Inputs of a model that are ids of rows: which of them go to tables whose rows travel alone, or to
// embeddings so large that float32 does not tell their rows apart. Such ids come as numbers of
// their own kind (table_ids.h, row_ids.h), so that nothing but the table may read them.
#pragma once

#include <cstdint>
#include <vector>

#include "keras/json.h"
#include "keras/tables.h"

namespace paracord {

// Whether the node is an Embedding of so many rows that float32 does not tell them apart.
bool IsLargeTable(const ModelSpec& model, const NodeSpec& node);

// An input whose readers take numbers of several kinds becomes several inputs, of the same column
// of the data. Tables that read the same inputs take the same numbers, and so do masks of the ids.
// `columns`: of each input.
void SplitIdInputs(ModelSpec& model, const TableLayers& tables, std::vector<size_t>& columns);

}  // namespace paracord
