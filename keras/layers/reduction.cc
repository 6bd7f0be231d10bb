#include "keras/layers/reduction.h"

#include <utility>

#include "common/status_macros.h"

namespace paracord {
namespace {

// The walk into a copy with the reduced axes last.
Walk ToEnd(int64_t batch, const Shape& shape, const std::vector<bool>& reduced) {
  const std::vector<int64_t> steps = RowMajor(WithBatch(batch, shape));
  Walk walk{{batch}, {steps[0]}, {}, {}};
  for (const bool last : {false, true}) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (reduced[i] != last) continue;
      walk.dims.push_back(shape[i]);
      walk.a.push_back(steps[i + 1]);
    }
  }
  walk.y = RowMajor(walk.dims);
  return Shorten(std::move(walk));
}

}  // namespace

Reduction::Reduction(int64_t batch, const Shape& shape, const Shape& kept)
    : n(batch * Elements(shape)), sums(batch * Elements(kept)), count(n / sums) {
  const Shape all = WithBatch(batch, shape);
  const std::vector<int64_t> dense = RowMajor(all), left = BroadcastSteps(batch, kept, shape);
  over = Shorten({all, dense, {}, left});
  by = Shorten({all, dense, left, dense});
}

absl::StatusOr<Largest> Largest::Make(Ops& ops, int64_t batch, const Shape& shape,
                                      const std::vector<bool>& reduced) {
  Largest made(ops);
  int64_t inner = 1, count = 1, outer = batch;
  size_t last = shape.size();
  while (last > 0 && !reduced[last - 1]) inner *= shape[--last];
  while (last > 0 && reduced[last - 1]) count *= shape[--last];
  bool together = true;
  for (size_t i = 0; i < last; ++i) {
    together = together && !reduced[i];
    outer *= shape[i];
  }
  if (!together) {
    made.to_end_ = ToEnd(batch, shape, reduced);
    ASSIGN_OR_RETURN(made.moved_, ops.Allocate(batch * Elements(shape)));
    outer = batch;
    inner = count = 1;
    for (size_t i = 0; i < shape.size(); ++i) (reduced[i] ? count : outer) *= shape[i];
  }
  const WindowAxis along{.in = count, .out = 1, .size = count, .stride = count};
  const WindowAxis one{.in = 1, .out = 1};
  ASSIGN_OR_RETURN(made.pool_, ops.MakePool2D({true, outer, inner, along, one}));
  return made;
}

void Largest::Run(const float* x, float* y) {
  if (moved_ != nullptr) {
    ops_->Copy(to_end_, false, x, moved_.get());
    x = moved_.get();
  }
  pool_->Forward(x, y);
}

}  // namespace paracord
