// The reduction of a tensor along some axes of an example, by a sum or by the maximum. Walks are
// explained in tensor/ops.h. Owned and used by one kernel.
#pragma once

#include <memory>
#include <vector>

#include "keras/layers/layer.h"
#include "keras/layers/walks.h"

namespace paracord {

// The walks between a tensor and its reduction along some axes.
struct Reduction {
  // `n` elements of the tensor, `sums` elements of the reduction, `count` = n / sums.
  int64_t n = 0, sums = 0, count = 1;
  Walk over;  // from the tensor to the reduction
  Walk by;    // from the tensor and the reduction to the tensor's shape

  // `kept` is `shape` with 1 for each reduced axis.
  Reduction(int64_t batch, const Shape& shape, const Shape& kept);
  Walk same() const { return {{n}, {1}, {1}, {1}}; }
  // The walk that copies the reduction to the tensor's shape, by broadcast.
  Walk spread() const { return {over.dims, over.y, {}, over.a}; }
  void Sum(Ops& ops, const float* x, float* y) const {
    ops.Fill(sums, 0, y);
    ops.Copy(over, true, x, y);
  }
};

// The maximum along some axes, computed as a pooling. If these axes are not adjacent, a copy of the
// tensor in which they come last is pooled.
class Largest {
 public:
  static absl::StatusOr<Largest> Make(Ops& ops, int64_t batch, const Shape& shape,
                                      const std::vector<bool>& reduced);
  void Run(const float* x, float* y);

 private:
  explicit Largest(Ops& ops) : ops_(&ops) {}

  Ops* ops_;
  Walk to_end_;
  DeviceArray moved_;
  std::unique_ptr<Pool2D> pool_;
};

}  // namespace paracord
