#include "keras/layers/masked_moments.h"

#include <utility>

#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr float kKerasEpsilon = 1e-7f;

}  // namespace

MaskedMoments::MaskedMoments(Ops& ops, const NormShape& shape, Walk spread)
    : ops_(ops),
      shape_(shape),
      spread_(std::move(spread)),
      by_each_{{shape.rows * shape.columns}, {1}, {1}, {1}},
      by_column_{{shape.rows, shape.columns}, {shape.columns, 1}, {0, 1}, {shape.columns, 1}},
      of_columns_{{shape.columns}, {1}, {1}, {1}} {}

absl::StatusOr<std::unique_ptr<MaskedMoments>> MaskedMoments::Make(Ops& ops, const NormShape& shape,
                                                                   Walk spread) {
  std::unique_ptr<MaskedMoments> made(new MaskedMoments(ops, shape, std::move(spread)));
  ASSIGN_OR_RETURN(made->mask_, ops.Allocate(shape.rows * shape.columns));
  ASSIGN_OR_RETURN(made->wide_, ops.Allocate(shape.rows * shape.columns));
  ASSIGN_OR_RETURN(made->columns_, ops.Allocate(3 * shape.columns));
  ASSIGN_OR_RETURN(made->ratio_, ops.Allocate(2 * shape.columns));
  return made;
}

// The moments over the selected rows are the moments of masked x over all rows, times the ratio of
// row counts.
void MaskedMoments::Forward(const float* x, const float* mask, float* mean, float* variance) {
  const int64_t columns = shape_.columns;
  float* const count = ratio_.get() + columns;
  ops_.Copy(spread_, false, mask, mask_.get());
  ops_.SumRows(shape_.rows, columns, mask_.get(), count);
  ops_.Affine(columns, 1, kKerasEpsilon, count, count);
  ops_.Fill(columns, static_cast<float>(shape_.rows), ratio_.get());
  ops_.Binary(BinaryKind::kDivide, of_columns_, ratio_.get(), count, ratio_.get());

  ops_.Binary(BinaryKind::kMultiply, by_each_, x, mask_.get(), wide_.get());
  ops_.Moments(shape_, wide_.get(), mean, variance);
  ops_.Binary(BinaryKind::kMultiply, of_columns_, mean, ratio_.get(), mean);
  ops_.Binary(BinaryKind::kSubtract, by_column_, x, mean, wide_.get());
  ops_.Binary(BinaryKind::kMultiply, by_each_, wide_.get(), mask_.get(), wide_.get());
  ops_.Moments(shape_, wide_.get(), columns_.get(), variance);
  ops_.Binary(BinaryKind::kMultiply, of_columns_, variance, ratio_.get(), variance);
}

// With n selected rows and z the normalised x: dx = scale / sqrt(variance + epsilon) (dy - mask
// (doffset + z dscale) / n).
void MaskedMoments::Backward(const float* x, const float* mean, const float* variance,
                             const float* scale, const float* dy, float* dx, float* dscale,
                             float* doffset) {
  const int64_t columns = shape_.columns;
  if (dscale == nullptr) dscale = columns_.get();
  if (doffset == nullptr) doffset = columns_.get() + columns;
  ops_.NormalizeBackward(shape_, true, x, mean, variance, scale, nullptr, dy, dx, dscale, doffset);
  if (dx == nullptr) return;
  float* const factor = columns_.get() + 2 * columns;
  ops_.Affine(columns, 1, shape_.epsilon, variance, factor);
  ops_.Activate({ActivationKind::kPower, 1, -0.5f}, 1, columns, factor, factor);
  if (scale != nullptr) {
    ops_.Binary(BinaryKind::kMultiply, {{columns}, {1}, {1}, {1}}, factor, scale, factor);
  }
  ops_.Binary(BinaryKind::kMultiply, of_columns_, factor, ratio_.get(), factor);
  ops_.Affine(columns, -1 / static_cast<float>(shape_.rows), 0, factor, factor);
  ops_.Normalize(shape_, x, mean, variance, dscale, doffset, wide_.get());
  ops_.Binary(BinaryKind::kMultiply, by_each_, wide_.get(), mask_.get(), wide_.get());
  ops_.Binary(BinaryKind::kMultiply, by_column_, wide_.get(), factor, wide_.get());
  ops_.Add(shape_.rows * columns, wide_.get(), dx);
}

}  // namespace paracord
