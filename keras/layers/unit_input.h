// Scales an input of a kernel to unit length along some axes, forward and backward. The kernel owns
// it, reads the result made() after Forward, and writes its gradient to d_made() before Backward.
#pragma once

#include "common/status_macros.h"
#include "keras/layers/layer.h"
#include "keras/layers/walks.h"

namespace paracord {

// `rest` is `shape` with size 1 on the axes of a length. A length is the sum of absolute values
// (`order` 1) or the root of the sum of squares (`order` 2); a sum below `least` counts as `least`.
class UnitInput {
 public:
  static absl::StatusOr<UnitInput> Make(Ops& ops, int64_t batch, const Shape& shape,
                                        const Shape& rest, float least, int order = 2) {
    UnitInput made(ops, least, order);
    made.n_ = batch * Elements(shape);
    made.lengths_ = batch * Elements(rest);
    const std::vector<int64_t> dims = WithBatch(batch, shape), dense = RowMajor(dims);
    const std::vector<int64_t> one = BroadcastSteps(batch, rest, shape);
    made.by_length_ = Shorten({dims, dense, one, dense});
    made.over_axis_ = Shorten({dims, dense, {}, one});
    ASSIGN_OR_RETURN(made.unit_, ops.Allocate(made.n_));
    ASSIGN_OR_RETURN(made.d_, ops.Allocate(made.n_));
    ASSIGN_OR_RETURN(made.kept_, ops.Allocate(3 * made.lengths_));
    return made;
  }

  void Forward(const float* x) {
    constexpr float kMost = 3e38f;
    float *const inverse = kept_.get(), *const squared = along(), *const own = inverse + lengths_;
    if (order_ == 1) {
      ops_->Activate({ActivationKind::kAbs}, 1, n_, x, d_.get());
      Sum(d_.get(), squared);
    } else {
      SumOfProducts(x, x, d_.get(), squared);
    }
    ops_->Activate({ActivationKind::kClip, least_, kMost}, 1, lengths_, squared, inverse);
    ops_->Binary(BinaryKind::kEqual, {{lengths_}, {1}, {1}, {1}}, squared, inverse, own);
    const float power = order_ == 1 ? -1.f : -0.5f;
    ops_->Activate({ActivationKind::kPower, 1, power}, 1, lengths_, inverse, inverse);
    ops_->Binary(BinaryKind::kMultiply, by_length_, x, inverse, unit_.get());
  }
  const float* made() const { return unit_.get(); }
  float* d_made() const { return d_.get(); }
  // dx = (d - unit (unit . d)) / length, without the second term where the sum was below `least`.
  // With order 1 the sign of `unit` takes the place of the first `unit`.
  void Backward(float* dx) {
    const float* const own = kept_.get() + lengths_;
    SumOfProducts(unit_.get(), d_.get(), dx, along());
    ops_->Binary(BinaryKind::kMultiply, {{lengths_}, {1}, {1}, {1}}, along(), own, along());
    const float* slope = unit_.get();
    if (order_ == 1) {
      ops_->Activate({ActivationKind::kSign}, 1, n_, slope, dx);
      slope = dx;
    }
    ops_->Binary(BinaryKind::kMultiply, by_length_, slope, along(), dx);
    ops_->Binary(BinaryKind::kSubtract, {{n_}, {1}, {1}, {1}}, d_.get(), dx, dx);
    ops_->Binary(BinaryKind::kMultiply, by_length_, dx, kept_.get(), dx);
  }

 private:
  UnitInput(Ops& ops, float least, int order) : ops_(&ops), least_(least), order_(order) {}
  float* along() const { return kept_.get() + 2 * lengths_; }
  void SumOfProducts(const float* a, const float* b, float* products, float* sums) {
    ops_->Binary(BinaryKind::kMultiply, {{n_}, {1}, {1}, {1}}, a, b, products);
    Sum(products, sums);
  }
  void Sum(const float* x, float* sums) {
    ops_->Fill(lengths_, 0, sums);
    ops_->Copy(over_axis_, true, x, sums);
  }

  Ops* ops_;
  float least_;
  int order_;
  int64_t n_ = 0, lengths_ = 0;
  Walk by_length_, over_axis_;
  // kept_ has three arrays: each length's inverse; 0 if its sum is below `least`, else 1; a sum.
  DeviceArray unit_, d_, kept_;
};

}  // namespace paracord
