// How to walk over tensors for the operations of ops.h: steps of row-major tensors, of broadcasts,
// and walks made short (axes of one element dropped, axes that lie together joined). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

// (batch, shape...)
Shape WithBatch(int64_t batch, const Shape& shape);

std::vector<int64_t> RowMajor(const Shape& shape);

// Steps of a row-major tensor of `shape` for indices of `over`, aligned at the last axis: 0 where
// the tensor has one element or no such axis. With a batch in front of both, an axis that is
// missing is missing after the batch.
std::vector<int64_t> BroadcastSteps(int64_t batch, const Shape& shape, const Shape& over);

// The axis of an example that a file calls so, where 0 is the batch and -1 the last axis. `rank`:
// of how many axes, the batch included; nullopt: those of the shape.
absl::StatusOr<size_t> AxisOf(const Shape& shape, int64_t given,
                              std::optional<int64_t> rank = std::nullopt);

// What lies before an axis, along it, and after it.
struct AxisSpan {
  int64_t outer = 1, count = 1, inner = 1;
};
AxisSpan SpanOf(int64_t batch, const Shape& shape, size_t axis);

// The same walk with as few axes as possible, at least one.
Walk Shorten(Walk walk);

}  // namespace paracord
