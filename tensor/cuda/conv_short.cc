// Convolution by cuDNN in 16 bits. The result is rounded to 16 bits, too, because cuDNN has no
// engine with a float32 result. Sums are in float32; float16 operands are scaled down until no sum
// can leave float16's range.
#include "tensor/cuda/conv_short.h"

#include <algorithm>
#include <bit>

#include "common/status_macros.h"
#include "tensor/cuda/conv_own.h"
#include "tensor/cuda/short_operands.h"

namespace paracord::cuda {
namespace {

// Below this, launching the rounding kernels takes as long as 16 bits save over TF32.
constexpr int64_t kMultiplicationsLeast = int64_t{1} << 30;

// bfloat16 tensors are used in place; float32 tensors are rounded before and converted after.
class ShortConv2D : public LibraryConv2D {
 public:
  ShortConv2D(Engine& engine, const ConvShape& s, Operands operands,
              std::unique_ptr<Convolution> convolution)
      : LibraryConv2D(engine, s, std::move(convolution)), operands_(operands) {}

  void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) override {
    if (!can_.forward || !AllAligned({x.bfloat16, y.bfloat16})) {
      return OwnConv2D::Forward(x, kernel, bias, y);
    }
    ShortOperands shorts = Shorts(Taps(s_));
    const uint16_t* image = Rounded(shorts, 0, s_.inputs(), x);
    const uint16_t* filter = RoundFilter(shorts, 1, kernel);
    const uint16_t* added = can_.finishes && s_.bias ? RoundBias(bias) : nullptr;
    uint16_t* result = Result(s_.outputs(), y);
    Call("convolution", can_.forward, image && filter && result, [&](void* workspace) {
      return convolution_->Forward(image, filter, added, result, workspace, engine_.stream());
    });
    if (!can_.forward) return OwnConv2D::Forward(x, kernel, bias, y);
    if (can_.finishes) return;
    if (y.bfloat16 != nullptr) return FinishForward(bias, y);
    engine_.Map("from 16 bits", s_.outputs(),
                FromShortBody{s_.out_channels, s_.relu, shorts.Factors(), s_.bias ? bias : nullptr,
                              result, y.float32});
  }
  // Both gradients read dy: rounds dy once.
  void Backward(const ConvGradients& g) override {
    if (!AllAligned({g.dy.bfloat16, g.x.bfloat16, g.dx.bfloat16})) return OwnConv2D::Backward(g);
    ShortOperands shorts =
        Shorts(std::max(s_.batch * s_.height.out * s_.width.out,
                        s_.height.size * s_.width.size * (s_.out_channels / s_.groups)));
    const uint16_t* gradient = Rounded(shorts, 1, s_.outputs(), g.dy);
    if (g.dkernel != nullptr) BackwardKernel(shorts, gradient, g);
    if (g.dx != nullptr) BackwardInput(shorts, gradient, g);
  }

 private:
  void BackwardKernel(ShortOperands& shorts, const uint16_t* gradient, const ConvGradients& g) {
    if (!can_.filter) return OwnConv2D::BackwardKernel(g);
    const uint16_t* image = Rounded(shorts, 0, s_.inputs(), g.x);
    uint16_t* result = Result(KernelSize(s_));
    Call("convolution, gradient of the kernel", can_.filter, image && gradient && result,
         [&](void* workspace) {
           return convolution_->BackwardFilter(image, gradient, result, workspace,
                                               engine_.stream());
         });
    if (!can_.filter) return OwnConv2D::BackwardKernel(g);
    if (operands_ == Operands::kBfloat16) {
      if (result != nullptr) FromFilter({nullptr, result}, g.dkernel);
    } else {
      float* filter = engine_.Work<float>(Scratch::kMore, KernelSize(s_));
      engine_.Map("from 16 bits", KernelSize(s_), Plain(shorts, result, filter));
      if (filter != nullptr) FromFilter(filter, g.dkernel);
    }
    BackwardBias(g);
  }
  void BackwardInput(ShortOperands& shorts, const uint16_t* gradient, const ConvGradients& g) {
    if (!can_.data) return OwnConv2D::BackwardInput(g);
    const uint16_t* filter = RoundFilter(shorts, 0, g.kernel);
    uint16_t* result = Result(s_.inputs(), g.dx);
    Call("convolution, gradient of the input", can_.data, gradient && filter && result,
         [&](void* workspace) {
           return convolution_->BackwardData(filter, gradient, result, workspace, engine_.stream());
         });
    if (!can_.data) return OwnConv2D::BackwardInput(g);
    if (g.dx.bfloat16 != nullptr) return;
    engine_.Map("from 16 bits", s_.inputs(), Plain(shorts, result, g.dx.float32));
  }

  // Operands for sums of `count` products, scaled to keep every sum below 2^15.
  ShortOperands Shorts(int64_t count) const {
    const int doublings = static_cast<int>(std::bit_width(static_cast<uint64_t>(count - 1)));
    return {engine_, operands_, (15 + doublings + 1) / 2};
  }
  const uint16_t* Rounded(ShortOperands& shorts, int operand, int64_t n, ConstTensor x) const {
    const bool given = operands_ == Operands::kBfloat16 && x.bfloat16 != nullptr;
    return given ? x.bfloat16 : shorts.Round(operand, n, x.float32);
  }
  const uint16_t* RoundFilter(ShortOperands& shorts, int operand, const float* kernel) {
    if (operands_ == Operands::kBfloat16) {
      uint16_t* const filter = shorts.Room(operand, KernelSize(s_));
      if (filter != nullptr) ToFilter(kernel, Tensor(filter));
      return filter;
    }
    const float* filter = Filter(kernel);
    return filter == nullptr ? nullptr : shorts.Round(operand, KernelSize(s_), filter);
  }
  // Returns the bias as bfloat16; null after an error, or if there is no bias.
  const uint16_t* RoundBias(const float* bias) {
    auto* const rounded = engine_.Work<uint16_t>(Scratch::kFactors, s_.out_channels);
    if (rounded == nullptr) return nullptr;
    engine_.Map("bias to bfloat16", s_.out_channels,
                ConvertBody{ConstTensor(bias), Tensor(rounded)});
    return rounded;
  }
  uint16_t* Result(int64_t n, Tensor to = {}) {
    return to.bfloat16 != nullptr ? to.bfloat16 : engine_.Work<uint16_t>(Scratch::kRows, n);
  }
  static FromShortBody Plain(ShortOperands& shorts, const uint16_t* result, float* y) {
    return {1, false, shorts.Factors(), nullptr, result, y};
  }

  const Operands operands_;
};

bool AreWorth(Engine& engine, const ConvShape& s) {
  if (s.x_bfloat16 || s.y_bfloat16) {  // any other way would convert these tensors
    return engine.operands() == Operands::kBfloat16 && engine.runtime().has_bfloat16();
  }
  const int64_t multiplications = s.outputs() * Taps(s);
  if (engine.runtime().has_bfloat16() && multiplications < kMultiplicationsLeast) return false;
  return ShortOperands(engine, engine.operands())
      .AreWorth(multiplications, s.inputs() + KernelSize(s) + s.outputs());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Conv2D>> MakeShortConv2D(Engine& engine, const ConvShape& s) {
  const Operands operands = engine.operands();
  if (!AreWorth(engine, s)) return nullptr;
  absl::StatusOr<std::unique_ptr<Convolution>> made = engine.runtime().MakeConvolution(
      {.shape = s, .operands = operands, .workspace_max = engine.workspace_max()});
  if (absl::IsUnimplemented(made.status())) return nullptr;
  RETURN_IF_ERROR(made.status());
  const Directions can = (*made)->can();
  if (!can.forward || !can.data || !can.filter) return nullptr;
  return std::make_unique<ShortConv2D>(engine, s, operands, *std::move(made));
}

}  // namespace paracord::cuda
