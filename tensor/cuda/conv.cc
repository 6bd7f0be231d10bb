// Convolution by cuDNN, which reads and writes 16 bytes at once: an unaligned image (the second
// slice of a batch) is copied. Without tensor cores most GPUs have only the slowest engine for
// padding that differs between both ends; a padded copy of the image replaces such padding.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "tensor/cuda/conv_own.h"
#include "tensor/cuda/conv_short.h"

namespace paracord::cuda {
namespace {

class CudnnConv2D : public LibraryConv2D {
 public:
  // `theirs` is the shape for cuDNN; with padding in the copy, its image includes the padding.
  CudnnConv2D(Engine& engine, const ConvShape& s, const ConvShape& theirs,
              std::unique_ptr<Convolution> convolution)
      : LibraryConv2D(engine, s, std::move(convolution)),
        theirs_(theirs),
        padded_(theirs.inputs() != s.inputs()) {}

  void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) override {
    if (!can_.forward || !AllAligned({y.float32, bias})) {
      return OwnConv2D::Forward(x, kernel, bias, y);
    }
    const float* image = Image(x);
    const float* filter = Filter(kernel);
    Call("convolution", can_.forward, filter != nullptr && image != nullptr, [&](void* workspace) {
      return convolution_->Forward(image, filter, bias, y.float32, workspace, engine_.stream());
    });
    if (!can_.forward) return OwnConv2D::Forward(x, kernel, bias, y);
    if (!can_.finishes) FinishForward(bias, y);
  }
  void Backward(const ConvGradients& g) override {
    if (g.dkernel != nullptr) BackwardKernel(g);
    if (g.dx != nullptr) BackwardInput(g);
  }

 private:
  void BackwardInput(const ConvGradients& g) {
    if (!can_.data || !AllAligned({g.dy.float32, padded_ ? nullptr : g.dx.float32})) {
      return OwnConv2D::BackwardInput(g);
    }
    const float* filter = Filter(g.kernel);
    float* image = padded_ ? engine_.Work<float>(Scratch::kRows, theirs_.inputs()) : g.dx.float32;
    Call("convolution, gradient of the input", can_.data, filter != nullptr && image != nullptr,
         [&](void* workspace) {
           return convolution_->BackwardData(filter, g.dy.float32, image, workspace,
                                             engine_.stream());
         });
    if (!can_.data) return OwnConv2D::BackwardInput(g);
    if (!padded_ || image == nullptr) return;
    const Walk out = PaddingWalk();
    CopyWalk(engine_, {out.dims, out.y, {}, out.a}, false, image + Corner(), g.dx);
  }
  void BackwardKernel(const ConvGradients& g) {
    if (!can_.filter || !AllAligned({g.dy.float32})) return OwnConv2D::BackwardKernel(g);
    const float* image = Image(g.x);
    float* filter = engine_.Work<float>(Scratch::kMore, KernelSize(s_));
    Call("convolution, gradient of the kernel", can_.filter, filter != nullptr && image != nullptr,
         [&](void* workspace) {
           return convolution_->BackwardFilter(image, g.dy.float32, filter, workspace,
                                               engine_.stream());
         });
    if (!can_.filter) return OwnConv2D::BackwardKernel(g);
    if (filter != nullptr) FromFilter(filter, g.dkernel);
    BackwardBias(g);
  }

  // The offset of the image within its padded copy.
  int64_t Corner() const {
    return (s_.height.pad_before * theirs_.width.in + s_.width.pad_before) * s_.in_channels;
  }
  Walk PaddingWalk() const {
    const int64_t row = s_.width.in * s_.in_channels, padded = theirs_.width.in * s_.in_channels;
    return {{s_.batch, s_.height.in, row},
            {s_.height.in * row, row, 1},
            {},
            {theirs_.height.in * padded, padded, 1}};
  }
  const float* Image(const float* x) {
    if (!padded_) return AlignedImage(x);
    float* image = engine_.Work<float>(Scratch::kRows, theirs_.inputs());
    if (image == nullptr) return nullptr;
    engine_.Map("fill", theirs_.inputs(), FillBody{0, image});
    CopyWalk(engine_, PaddingWalk(), false, x, image + Corner());
    return image;
  }
  // Returns the image, copied if unaligned. While memory is planned, reserves the copy whenever
  // slices of the batch may need it.
  const float* AlignedImage(const float* x) {
    const int64_t all = s_.inputs();
    const bool copied = !Aligned(x), slices_may_be = all / s_.batch * 4 % kTogether != 0;
    if (!copied && !slices_may_be) return x;
    float* image = engine_.Work<float>(Scratch::kRows, all);
    if (image == nullptr || !copied) return image == nullptr ? nullptr : x;
    CopyWalk(engine_, {{all}, {1}, {}, {1}}, false, x, image);
    return image;
  }

  const ConvShape theirs_;
  const bool padded_;
};

// The shape passed to cuDNN.
ConvShape Theirs(const ConvShape& s, bool tf32) {
  ConvShape theirs = s;
  bool even = true;
  for (WindowAxis* const axis : {&theirs.height, &theirs.width}) {
    // Pixels behind the last window are not read: equal padding at both ends is allowed.
    const int64_t reach = (axis->size - 1) * axis->dilation + 1;
    const int64_t out = (axis->in + 2 * axis->pad_before - reach) / axis->stride + 1;
    if (out == axis->out) axis->pad_after = axis->pad_before;
    even = even && axis->pad_after == axis->pad_before;
  }
  if (even || tf32) return theirs;
  for (WindowAxis* const axis : {&theirs.height, &theirs.width}) {
    axis->in += axis->pad_before + axis->pad_after;
    axis->pad_before = axis->pad_after = 0;
  }
  return theirs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(Engine& engine, const ConvShape& s) {
  const bool tf32 = engine.operands() != Operands::kFloat32 && engine.runtime().has_bfloat16();
  const ConvShape theirs = Theirs(s, tf32);
  // cuDNN has no empty tensors, and many of its engines use 32-bit indices.
  const int64_t most = std::max(theirs.inputs(), s.outputs());
  if (std::min(s.inputs(), s.outputs()) == 0 || most > std::numeric_limits<int32_t>::max()) {
    return std::make_unique<OwnConv2D>(engine, s);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Conv2D> in_16_bits, MakeShortConv2D(engine, s));
  if (in_16_bits != nullptr || s.x_bfloat16 || s.y_bfloat16) return in_16_bits;
  const ConvCall call{.shape = theirs,
                      .operands = tf32 ? Operands::kTf32 : Operands::kFloat32,
                      .workspace_max = engine.workspace_max()};
  absl::StatusOr<std::unique_ptr<Convolution>> made = engine.runtime().MakeConvolution(call);
  const Directions can = made.ok() ? (*made)->can() : Directions{false, false, false};
  // With a lost device, cuDNN only reports a failure or an unsupported operation.
  if (!can.forward || !can.data || !can.filter) {
    RETURN_IF_ERROR(engine.runtime().Synchronize(engine.stream()));
  }
  if (!made.ok() && !absl::IsUnimplemented(made.status())) return made.status();
  SaySlow(engine, s, can, made.ok() ? "it has no engine" : made.status().message());
  if (!made.ok()) return std::make_unique<OwnConv2D>(engine, s);
  return std::make_unique<CudnnConv2D>(engine, s, theirs, *std::move(made));
}

}  // namespace paracord::cuda
