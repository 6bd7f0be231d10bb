// Strides for the operations of ops.h: of row-major tensors and of broadcasts, and simplified
// walks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

// (batch, shape...)
Shape WithBatch(int64_t batch, const Shape& shape);

// The strides of a row-major tensor.
std::vector<int64_t> RowMajor(const Shape& shape);

// Strides of a row-major tensor of `shape` for indices over `over`, aligned at the last axis: 0 on
// axes of size 1 or absent from the tensor. Both have the batch in front; missing axes are inserted
// behind the batch.
std::vector<int64_t> BroadcastSteps(int64_t batch, const Shape& shape, const Shape& over);

// The axis of an example for the file's `given`, where 0 is the batch and -1 the last axis. `rank`
// is the number of axes, including the batch; nullopt takes the shape's.
absl::StatusOr<size_t> AxisOf(const Shape& shape, int64_t given,
                              std::optional<int64_t> rank = std::nullopt);

// The number of elements before an axis, along the axis, and behind it.
struct AxisSpan {
  int64_t outer = 1, count = 1, inner = 1;
};
AxisSpan SpanOf(int64_t batch, const Shape& shape, size_t axis);

// An equivalent walk with as few axes as possible, at least one: drops axes of size 1 and joins
// contiguous axes.
Walk Shorten(Walk walk);

}  // namespace paracord
