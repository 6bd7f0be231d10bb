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

// Strides of a row-major tensor of `shape` for indices over `over`, aligned at the last axis: 0
// where the tensor has size 1 or no such axis. The batch is in front of both; missing axes are
// inserted after it.
std::vector<int64_t> BroadcastSteps(int64_t batch, const Shape& shape, const Shape& over);

// The axis of an example that a file calls `given`, where 0 is the batch and -1 the last axis.
// `rank` is the number of axes, the batch included; nullopt takes the shape's.
absl::StatusOr<size_t> AxisOf(const Shape& shape, int64_t given,
                              std::optional<int64_t> rank = std::nullopt);

// The number of elements before an axis, along it, and after it.
struct AxisSpan {
  int64_t outer = 1, count = 1, inner = 1;
};
AxisSpan SpanOf(int64_t batch, const Shape& shape, size_t axis);

// An equivalent walk with as few axes as possible, at least one: axes of size 1 are dropped, and
// axes that are contiguous are joined.
Walk Shorten(Walk walk);

}  // namespace paracord
