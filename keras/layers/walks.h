// Functions for a Walk (tensor/ops.h): a loop over axes with strides for each operand. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

// Returns (batch, shape...).
Shape WithBatch(int64_t batch, const Shape& shape);

// Returns the strides of a row-major tensor of this shape.
std::vector<int64_t> RowMajor(const Shape& shape);

// Returns the strides of a row-major tensor (batch, shape...) that is broadcast in a loop over
// (batch, over...). The last axes are aligned; the stride is 0 where `shape` has size 1 or no axis.
std::vector<int64_t> BroadcastSteps(int64_t batch, const Shape& shape, const Shape& over);

// Returns the index, without the batch, of axis `given` of the model file: 0 is the batch, -1 the
// last axis. The number of axes, with the batch, is `rank` or, if nullopt, one more than in
// `shape`. INVALID_ARGUMENT for the batch, and for an axis that does not exist.
absl::StatusOr<size_t> AxisOf(const Shape& shape, int64_t given,
                              std::optional<int64_t> rank = std::nullopt);

// `count` is the size of an axis; `outer` and `inner` are the products of the sizes of the axes
// before, with the batch, and behind.
struct AxisSpan {
  int64_t outer = 1, count = 1, inner = 1;
};
AxisSpan SpanOf(int64_t batch, const Shape& shape, size_t axis);

// Returns a walk over the same elements with fewer axes, but at least one: drops axes of size 1,
// and joins two axes where a single stride does for both.
Walk Shorten(Walk walk);

}  // namespace paracord
