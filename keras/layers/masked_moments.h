// Mean and variance of each column over the rows selected by a mask of ones and zeros, and their
// gradient, for BatchNormalization under a mask. Owned and used by the layer's kernel.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/ops.h"

namespace paracord {

class MaskedMoments {
 public:
  // `shape` is by column. `spread` walks (tensor/ops.h) from the mask to x, and repeats the mask
  // for each column. RESOURCE_EXHAUSTED if the device lacks memory.
  static absl::StatusOr<std::unique_ptr<MaskedMoments>> Make(Ops& ops, const NormShape& shape,
                                                             Walk spread);

  // x is (rows, columns), mean and variance are (columns). If the mask selects nothing, both are
  // zero, as in Keras 3.
  void Forward(const float* x, const float* mask, float* mean, float* variance);
  // Computes Ops::NormalizeBackward, where the moments of the last Forward are functions of x.
  void Backward(const float* x, const float* mean, const float* variance, const float* scale,
                const float* dy, float* dx, float* dscale, float* doffset);

 private:
  MaskedMoments(Ops& ops, const NormShape& shape, Walk spread);

  Ops& ops_;
  const NormShape shape_;
  const Walk spread_, by_each_, by_column_, of_columns_;
  DeviceArray mask_, wide_;  // (rows, columns)
  DeviceArray columns_;      // three arrays (columns): dscale, doffset, scratch
  DeviceArray ratio_;        // two arrays (columns): rows / selected rows, selected rows
};

}  // namespace paracord
