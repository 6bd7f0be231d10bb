// Mean and variance of each column over the rows where a mask is 1, and the gradient through a
// normalisation by them, for BatchNormalization with a mask. Owned and used by the layer's kernel.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/ops.h"

namespace paracord {

class MaskedMoments {
 public:
  // `shape.by_column` must be true. `spread` is the walk (tensor/ops.h) that copies the mask to the
  // shape of x, once for each column. RESOURCE_EXHAUSTED if the device lacks memory.
  static absl::StatusOr<std::unique_ptr<MaskedMoments>> Make(Ops& ops, const NormShape& shape,
                                                             Walk spread);

  // x is (rows, columns), mean and variance are (columns), both 0 if the mask is 0 everywhere.
  void Forward(const float* x, const float* mask, float* mean, float* variance);
  // Like Ops::NormalizeBackward, with mean and variance of the last Forward as functions of x.
  void Backward(const float* x, const float* mean, const float* variance, const float* scale,
                const float* dy, float* dx, float* dscale, float* doffset);

 private:
  MaskedMoments(Ops& ops, const NormShape& shape, Walk spread);

  Ops& ops_;
  const NormShape shape_;
  const Walk spread_, by_each_, by_column_, of_columns_;
  DeviceArray mask_, wide_;  // (rows, columns)
  DeviceArray columns_;      // three arrays (columns): dscale, doffset, scratch
  // Two arrays (columns): the number of all rows divided by the number of rows whose mask is 1, and
  // the number of rows whose mask is 1.
  DeviceArray ratio_;
};

}  // namespace paracord
