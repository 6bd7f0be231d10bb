// Mean and variance of each column over the elements that a mask of ones and zeros leaves, and the
// way back through them: what a BatchNormalization has under a mask. Owned by the layer's kernel;
// used as every Kernel.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/ops.h"

namespace paracord {

class MaskedMoments {
 public:
  // `shape` is by column; `spread` gives the mask an element for each of x. RESOURCE_EXHAUSTED as
  // Ops::Allocate.
  static absl::StatusOr<std::unique_ptr<MaskedMoments>> Make(Ops& ops, const NormShape& shape,
                                                             Walk spread);

  // x (rows, columns), mean and variance (columns). Where the mask leaves nothing both are zero, as
  // in Keras 3.
  void Forward(const float* x, const float* mask, float* mean, float* variance);
  // As Ops::NormalizeBackward by these moments, of the Forward before.
  void Backward(const float* x, const float* mean, const float* variance, const float* scale,
                const float* dy, float* dx, float* dscale, float* doffset);

 private:
  MaskedMoments(Ops& ops, const NormShape& shape, Walk spread);

  Ops& ops_;
  const NormShape shape_;
  const Walk spread_, by_each_, by_column_, of_columns_;
  DeviceArray mask_, wide_;  // (rows, columns)
  DeviceArray columns_;      // three times (columns): dscale, doffset, scratch
  DeviceArray ratio_;        // (columns), of all rows to those that count; then their number
};

}  // namespace paracord
