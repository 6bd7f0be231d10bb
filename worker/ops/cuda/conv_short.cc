// Convolution by cuDNN in 16 bits. What comes out is rounded as the operands are: cuDNN has no
// engine with a float32 result. It adds up in float32; operands of float16 are so far below its
// largest that no sum leaves its range.
#include "worker/ops/cuda/conv_short.h"

#include <algorithm>
#include <bit>

#include "common/status_macros.h"
#include "worker/ops/cuda/conv_own.h"
#include "worker/ops/cuda/short_operands.h"

namespace paracord::cuda {
namespace {

// Below it what is launched for the rounding takes as long, where TF32 is the other way.
constexpr int64_t kMultiplicationsLeast = int64_t{1} << 30;

class ShortConv2D : public LibraryConv2D {
 public:
  ShortConv2D(Engine& engine, const ConvShape& s, Operands operands,
              std::unique_ptr<Convolution> convolution)
      : LibraryConv2D(engine, s, std::move(convolution)), operands_(operands) {}

  void Forward(const float* x, const float* kernel, const float* bias, float* y) override {
    if (!can_.forward) return OwnConv2D::Forward(x, kernel, bias, y);
    ShortOperands shorts = Shorts(Taps(s_));
    const uint16_t* image = shorts.Round(0, Inputs(s_), x);
    const uint16_t* filter = RoundFilter(shorts, 1, kernel);
    uint16_t* result = Result(Outputs(s_));
    Call("convolution", can_.forward, image && filter && result, [&](void* workspace) {
      return convolution_->Forward(image, filter, nullptr, result, workspace, engine_.stream());
    });
    if (!can_.forward) return OwnConv2D::Forward(x, kernel, bias, y);
    engine_.Map("from 16 bits", Outputs(s_),
                FromShortBody{s_.out_channels, s_.relu, shorts.Factors(), s_.bias ? bias : nullptr,
                              result, y});
  }
  // Both read dy, which is rounded once.
  void Backward(const ConvGradients& g) override {
    ShortOperands shorts =
        Shorts(std::max(s_.batch * s_.height.out * s_.width.out,
                        s_.height.size * s_.width.size * (s_.out_channels / s_.groups)));
    const uint16_t* gradient = shorts.Round(1, Outputs(s_), g.dy);
    if (g.dkernel != nullptr) BackwardKernel(shorts, gradient, g);
    if (g.dx != nullptr) BackwardInput(shorts, gradient, g);
  }

 private:
  void BackwardKernel(ShortOperands& shorts, const uint16_t* gradient, const ConvGradients& g) {
    if (!can_.filter) return OwnConv2D::BackwardKernel(g);
    const uint16_t* image = shorts.Round(0, Inputs(s_), g.x);
    uint16_t* result = Result(KernelSize(s_));
    float* filter = engine_.Work<float>(Scratch::kMore, KernelSize(s_));
    Call("convolution, gradient of the kernel", can_.filter, image && gradient && result && filter,
         [&](void* workspace) {
           return convolution_->BackwardFilter(image, gradient, result, workspace,
                                               engine_.stream());
         });
    if (!can_.filter) return OwnConv2D::BackwardKernel(g);
    engine_.Map("from 16 bits", KernelSize(s_), Plain(shorts, result, filter));
    if (filter != nullptr) FromFilter(filter, g.dkernel);
    BackwardBias(g);
  }
  void BackwardInput(ShortOperands& shorts, const uint16_t* gradient, const ConvGradients& g) {
    if (!can_.data) return OwnConv2D::BackwardInput(g);
    const uint16_t* filter = RoundFilter(shorts, 0, g.kernel);
    uint16_t* result = Result(Inputs(s_));
    Call("convolution, gradient of the input", can_.data, gradient && filter && result,
         [&](void* workspace) {
           return convolution_->BackwardData(filter, gradient, result, workspace, engine_.stream());
         });
    if (!can_.data) return OwnConv2D::BackwardInput(g);
    engine_.Map("from 16 bits", Inputs(s_), Plain(shorts, result, g.dx));
  }

  // For sums of so many products: no operand is 2^15 before, and no sum after.
  ShortOperands Shorts(int64_t count) const {
    const int doublings = static_cast<int>(std::bit_width(static_cast<uint64_t>(count - 1)));
    return {engine_, operands_, (15 + doublings + 1) / 2};
  }
  const uint16_t* RoundFilter(ShortOperands& shorts, int operand, const float* kernel) {
    const float* filter = Filter(kernel);
    return filter == nullptr ? nullptr : shorts.Round(operand, KernelSize(s_), filter);
  }
  uint16_t* Result(int64_t n) { return engine_.Work<uint16_t>(Scratch::kRows, n); }
  static FromShortBody Plain(ShortOperands& shorts, const uint16_t* result, float* y) {
    return {1, false, shorts.Factors(), nullptr, result, y};
  }

  const Operands operands_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Conv2D>> MakeShortConv2D(Engine& engine, const ConvShape& s) {
  const Operands operands = engine.operands();
  const int64_t multiplications = Outputs(s) * Taps(s);
  if (engine.runtime().has_bfloat16() && multiplications < kMultiplicationsLeast) return nullptr;
  if (!ShortOperands(engine, operands)
           .AreWorth(multiplications, Inputs(s) + KernelSize(s) + Outputs(s))) {
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<Convolution>> made = engine.runtime().MakeConvolution(
      {.shape = s, .operands = operands, .workspace_max = engine.workspace_max()});
  if (absl::IsUnimplemented(made.status())) return nullptr;
  RETURN_IF_ERROR(made.status());
  const Directions can = (*made)->can();
  if (!can.forward || !can.data || !can.filter) return nullptr;
  return std::make_unique<ShortConv2D>(engine, s, operands, *std::move(made));
}

}  // namespace paracord::cuda
