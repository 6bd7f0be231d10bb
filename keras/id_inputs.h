// Finds inputs of a model that are ids for tables (whose rows travel alone), or for embeddings with
// more rows than float32 can tell apart. Such ids are passed in an encoding of their own
// (table_ids.h, row_ids.h), readable only by the table.
#pragma once

#include <cstdint>
#include <vector>

#include "keras/json.h"
#include "keras/tables.h"

namespace paracord {

// Whether the node is an Embedding with more rows than float32 can tell apart.
bool IsLargeTable(const ModelSpec& model, const NodeSpec& node);

// Splits an input read in several encodings into several inputs of a single data column. Tables
// with equal inputs share an encoding, and so do masks of their ids. `columns` is indexed by input.
void SplitIdInputs(ModelSpec& model, const TableLayers& tables, std::vector<size_t>& columns);

}  // namespace paracord
