// Strides for walks, loops over axes with strides for each operand (Walk in tensor/ops.h): strides
// of row-major tensors and of broadcasts, and simpler walks. Pure.
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

// Returns the strides of a row-major tensor (batch, shape...) in a loop over (batch, over...). The
// last axes are aligned; the stride is 0 on axes of size 1, and on axes that `shape` lacks.
std::vector<int64_t> BroadcastSteps(int64_t batch, const Shape& shape, const Shape& over);

// Returns the axis of an example for the file's `given`, where 0 is the batch and -1 the last axis.
// `rank` is the number of axes, including the batch; nullopt: the number in `shape`.
// INVALID_ARGUMENT for the batch, and for an axis that does not exist.
absl::StatusOr<size_t> AxisOf(const Shape& shape, int64_t given,
                              std::optional<int64_t> rank = std::nullopt);

// The number of elements before an axis (with the batch), along the axis, and behind it.
struct AxisSpan {
  int64_t outer = 1, count = 1, inner = 1;
};
AxisSpan SpanOf(int64_t batch, const Shape& shape, size_t axis);

// Returns a walk over the same elements with as few axes as possible, at least one: drops axes of
// size 1 and joins contiguous axes.
Walk Shorten(Walk walk);

}  // namespace paracord
