// Finds the inputs of a model that are ids of tables, or of embeddings with more than 2^24 rows,
// which float32 cannot tell apart. These ids are passed to the graph in an encoding (table_ids.h,
// row_ids.h) that only these embeddings, and masks of ids, can read.
#pragma once

#include <cstdint>
#include <vector>

#include "keras/json.h"
#include "keras/tables.h"

namespace paracord {

// Whether the node is a call of an embedding with more than 2^24 rows.
bool IsLargeTable(const ModelSpec& model, const NodeSpec& node);

// If an input has readers that need different encodings, adds a copy of the input for each encoding
// but the first. Tables have one encoding if they have the same inputs and number of shards, and
// all or none of them have more than 2^24 rows. `columns` has the data column of each input, and
// gets an entry for each new input.
void SplitIdInputs(ModelSpec& model, const TableLayers& tables, std::vector<size_t>& columns);

}  // namespace paracord
