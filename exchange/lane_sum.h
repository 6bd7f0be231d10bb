// The sum of a round's gradients: a binary tree over the lanes, padded to a power of two. A node is
// the float32 sum of its two children. If one child is missing (no such lane, a rejected batch, no
// gradient, no row with the id), the node equals the other child. Whoever adds up a whole subtree,
// a worker or the ps's store, therefore gets equal bits, in any order of arrival. Float addition is
// commutative, so these functions do not distinguish left and right. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/rows.h"

namespace paracord {

// Returns whether lanes [first, first + count) are a subtree of a round of `lanes` lanes: all lie
// in the round, and `count` is a power of two that divides `first`.
bool IsLaneRun(uint32_t first, uint32_t count, uint32_t lanes);

// Returns the quotient examples / batch as a float, 1 for a full batch: a lane's gradient, which is
// the mean over its `examples` examples, is multiplied by this factor before the sum.
float LaneFactor(uint64_t examples, uint64_t batch);
// Returns the quotient batch / examples as a float, the factor that turns the sum into a mean.
// `examples` is the number of examples in all lanes that were not rejected.
float MeanFactor(uint64_t batch, uint64_t examples);

// Adds `other` to `sum`, which has equally many elements.
void AddTo(std::span<float> sum, std::span<const float> other);
// Multiplies each element of `values` by `factor`.
void MultiplyBy(float factor, std::span<float> values);

// Rows of a table: ascending, distinct ids, and their values in the order of ids.
struct SummedRows {
  RowIds ids;
  std::vector<float> values;  // row after row, row_elements each
};

// Adds rows to `sum` in place, merged by id.
void AddRows(std::span<const uint64_t> ids, std::span<const float> values, uint64_t row_elements,
             SummedRows& sum);
// Adds rows to the dense values of a table's partition, whose first row has the id `first_id`.
void AddRowsToAll(std::span<const uint64_t> ids, std::span<const float> values,
                  uint64_t row_elements, uint64_t first_id, std::span<float> all);

}  // namespace paracord
