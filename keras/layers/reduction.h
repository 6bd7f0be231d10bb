// The reduction of a tensor along some axes of an example: walks (tensor/ops.h) for sums, and the
// maximum. Owned and used by one kernel.
#pragma once

#include <memory>
#include <vector>

#include "keras/layers/layer.h"
#include "keras/layers/walks.h"

namespace paracord {

// The walks between a tensor and its reduction along some axes.
struct Reduction {
  int64_t n = 0, sums = 0, count = 1;  // elements before and after the reduction, and n / sums
  Walk over;                           // from the tensor to the reduction
  Walk by;                             // from the tensor and the reduction to the tensor's shape

  // `kept` is `shape` with 1 for each reduced axis.
  Reduction(int64_t batch, const Shape& shape, const Shape& kept);
  Walk same() const { return {{n}, {1}, {1}, {1}}; }
  // Broadcasts the reduction to the tensor's shape.
  Walk spread() const { return {over.dims, over.y, {}, over.a}; }
  void Sum(Ops& ops, const float* x, float* y) const {
    ops.Fill(sums, 0, y);
    ops.Copy(over, true, x, y);
  }
};

// The maximum along some axes, by pooling: of the tensor if the axes are adjacent, otherwise of a
// copy with the axes last.
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
