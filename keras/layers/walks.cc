#include "keras/layers/walks.h"

#include "absl/strings/str_cat.h"

namespace paracord {

Shape WithBatch(int64_t batch, const Shape& shape) {
  Shape result{batch};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

std::vector<int64_t> RowMajor(const Shape& shape) {
  std::vector<int64_t> steps(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) steps[i - 1] = steps[i] * shape[i];
  return steps;
}

std::vector<int64_t> BroadcastSteps(int64_t batch, const Shape& shape, const Shape& over) {
  const std::vector<int64_t> own = RowMajor(WithBatch(batch, shape));
  std::vector<int64_t> steps(over.size() + 1, 0);
  steps[0] = own[0];
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) steps[over.size() - shape.size() + i + 1] = own[i + 1];
  }
  return steps;
}

absl::StatusOr<size_t> AxisOf(const Shape& shape, int64_t given, std::optional<int64_t> rank) {
  const int64_t axes = rank.value_or(static_cast<int64_t>(shape.size()) + 1);
  const int64_t axis = given < 0 ? given + axes : given;
  if (axis > 0 && axis < axes) return static_cast<size_t>(axis - 1);
  return absl::InvalidArgumentError(
      axis == 0 ? absl::StrCat("key \"axis\": ", given,
                               " is the batch, whose examples are computed apart")
                : absl::StrCat("key \"axis\": ", given, " is no axis of ", ShapeName(shape),
                               " (the batch does not count)"));
}

AxisSpan SpanOf(int64_t batch, const Shape& shape, size_t axis) {
  AxisSpan span{batch, shape[axis], 1};
  for (size_t i = 0; i < axis; ++i) span.outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) span.inner *= shape[i];
  return span;
}

Walk Shorten(Walk walk) {
  std::vector<std::vector<int64_t>*> all{&walk.a, &walk.y};
  if (!walk.b.empty()) all.push_back(&walk.b);
  const auto drop = [&](size_t axis) {
    const auto at = static_cast<std::ptrdiff_t>(axis);
    walk.dims.erase(walk.dims.begin() + at);
    for (std::vector<int64_t>* steps : all) steps->erase(steps->begin() + at);
  };
  for (size_t i = walk.dims.size(); i-- > 0;) {
    if (walk.dims[i] == 1 && walk.dims.size() > 1) drop(i);
  }
  for (size_t i = walk.dims.size(); i-- > 1;) {
    bool joined = true;
    for (const std::vector<int64_t>* steps : all) {
      joined = joined && (*steps)[i - 1] == (*steps)[i] * walk.dims[i];
    }
    if (!joined) continue;
    walk.dims[i] *= walk.dims[i - 1];
    drop(i - 1);
  }
  return walk;
}

}  // namespace paracord
