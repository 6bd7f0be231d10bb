// The sum of the gradients of a round: a binary tree over its lanes, padded to the next power of
// two. A node is left + right in float32, and where one side is missing (there is no lane, it was
// rejected, it has no gradient, it has no row of this id) the node is the other side. So whoever
// adds up a whole subtree, worker or store, gets the same bits, in whatever order gradients come.
// Adding two floats has the same result from either side, so the functions here do not ask which
// side is the left one. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/rows.h"

namespace paracord {

// Whether lanes [first, first + count) of a round of `lanes` are a subtree: count is a power of two
// that divides first.
bool IsLaneRun(uint32_t first, uint32_t count, uint32_t lanes);

// The factor of the mean gradient of a lane's `examples` before it is added: float(examples /
// batch). 1 for a whole batch.
float LaneFactor(uint64_t examples, uint64_t batch);
// The factor that makes the sum over `examples` in all, of lanes that were not rejected, their
// mean: float(batch / examples).
float MeanFactor(uint64_t batch, uint64_t examples);

// Adds `other` to `sum`; both have the same size.
void AddTo(std::span<float> sum, std::span<const float> other);
// Multiplies each element; a factor of 1 changes nothing.
void MultiplyBy(float factor, std::span<float> values);

// Rows of a table: ids ascending and distinct, and their values in the order of the ids.
struct SummedRows {
  RowIds ids;
  std::vector<float> values;  // (ids, row_elements)
};

// Adds rows, merged by id, in place: takes memory only where ids are new.
void AddRows(std::span<const uint64_t> ids, std::span<const float> values, uint64_t row_elements,
             SummedRows& sum);
// Adds rows to all rows of a table, of which `first_id` is the first.
void AddRowsToAll(std::span<const uint64_t> ids, std::span<const float> values,
                  uint64_t row_elements, uint64_t first_id, std::span<float> all);

}  // namespace paracord
