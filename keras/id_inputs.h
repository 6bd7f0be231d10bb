// Finds the inputs of a model that are ids of tables, or of embeddings with more rows than float32
// can tell apart (2^24). These ids are passed to the graph in an encoding (table_ids.h, row_ids.h)
// that only layers with such rows can read.
#pragma once

#include <cstdint>
#include <vector>

#include "keras/json.h"
#include "keras/tables.h"

namespace paracord {

// Whether the node is a call of an embedding with more rows than float32 can tell apart.
bool IsLargeTable(const ModelSpec& model, const NodeSpec& node);

// Splits an input that has readers of several encodings into an input for each encoding. Tables
// with the same inputs share an encoding, and so do masks computed from the ids. `columns` has the
// data column of each input, and gets an entry for each new input.
void SplitIdInputs(ModelSpec& model, const TableLayers& tables, std::vector<size_t>& columns);

}  // namespace paracord
