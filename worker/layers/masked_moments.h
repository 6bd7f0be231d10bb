// Mean and variance of each column over the rows that a mask of ones and zeros leaves, and the way
// back through them: what a BatchNormalization has under a mask. Owned by the layer's kernel; used
// as every Kernel.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/ops/ops.h"

namespace paracord {

class MaskedMoments {
 public:
  // `shape` is by column. RESOURCE_EXHAUSTED as Ops::Allocate.
  static absl::StatusOr<std::unique_ptr<MaskedMoments>> Make(Ops& ops, const NormShape& shape);

  // x (rows, columns), mask (rows), mean and variance (columns). Where the mask leaves no row both
  // are zero, as in Keras 3.
  void Forward(const float* x, const float* mask, float* mean, float* variance);
  // As Ops::NormalizeBackward by these moments, of the Forward before.
  void Backward(const float* x, const float* mask, const float* mean, const float* variance,
                const float* scale, const float* dy, float* dx, float* dscale, float* doffset);

 private:
  MaskedMoments(Ops& ops, const NormShape& shape);

  Ops& ops_;
  const NormShape shape_;
  const Walk by_row_, by_column_, by_one_;
  DeviceArray wide_;     // (rows, columns)
  DeviceArray columns_;  // three times (columns): dscale, doffset, scratch
  DeviceArray ratio_;    // of all rows to those that count; their number
};

}  // namespace paracord
