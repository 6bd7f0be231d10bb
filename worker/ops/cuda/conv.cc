// Convolution by cuDNN. Its filter is (out, h, w, in / groups), ours has out last; it pads both
// ends alike, so that other padding goes into a copy of the image, and it reads and writes 16 bytes
// at once, so that an image which does not begin at a multiple of them (the second slice of a
// batch) is copied, too. What it has no algorithm for is done by bodies of our own, which are slow.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/ops/cuda/elementwise.h"
#include "worker/ops/cuda/engine.h"
#include "worker/ops/cuda/window.h"

namespace paracord::cuda {
namespace {

int64_t Inputs(const ConvShape& s) { return s.batch * s.height.in * s.width.in * s.in_channels; }
int64_t Outputs(const ConvShape& s) {
  return s.batch * s.height.out * s.width.out * s.out_channels;
}
constexpr int64_t kTogether = 16;  // bytes
bool Aligned(const float* at) { return reinterpret_cast<intptr_t>(at) % kTogether == 0; }
int64_t KernelSize(const ConvShape& s) {
  return s.height.size * s.width.size * (s.in_channels / s.groups) * s.out_channels;
}

// Bias and ReLU are the same for both.
class AnyConv2D : public Conv2D {
 public:
  AnyConv2D(Engine& engine, const ConvShape& s) : engine_(engine), s_(s) {}

 protected:
  void FinishForward(const float* bias, float* y) {
    if (!s_.bias && !s_.relu) return;
    engine_.Map("bias", Outputs(s_),
                BiasBody{s_.out_channels, s_.relu, s_.bias ? bias : nullptr, y});
  }
  void BackwardBias(const float* dy, float* dbias) {
    if (!s_.bias) return;
    engine_.Reduce("gradient of the bias", s_.out_channels, Outputs(s_) / s_.out_channels, true,
                   SumRowsBody{s_.out_channels, dy, dbias});
  }
  Engine& engine_;
  const ConvShape s_;
};

class OwnConv2D : public AnyConv2D {
 public:
  using AnyConv2D::AnyConv2D;
  void Forward(const float* x, const float* kernel, const float* bias, float* y) override {
    engine_.Map("convolution", Outputs(s_), ConvBody{s_, x, kernel, y});
    FinishForward(bias, y);
  }
  void BackwardInput(const float* dy, const float* kernel, float* dx) override {
    engine_.Map("convolution, gradient of the input", Inputs(s_),
                ConvInputBody{s_, kernel, dy, dx});
  }
  void BackwardKernel(const float* x, const float* dy, float* dkernel, float* dbias) override {
    engine_.Reduce("convolution, gradient of the kernel", KernelSize(s_),
                   s_.batch * s_.height.out * s_.width.out, true,
                   ConvKernelBody{s_, x, dy, dkernel});
    BackwardBias(dy, dbias);
  }
};

void SaySlow(Engine& engine, const ConvShape& s, const Directions& can, absl::string_view why) {
  std::string what;
  for (const auto& [has, name] :
       {std::pair(can.forward, "output"), std::pair(can.data, "gradient of the input"),
        std::pair(can.filter, "gradient of the kernel")}) {
    if (!has) absl::StrAppend(&what, what.empty() ? "" : ", ", name);
  }
  if (what.empty()) return;
  engine.SaySlow(absl::StrCat("a convolution of ", s.in_channels, " to ", s.out_channels,
                              " channels by ", s.height.size, "x", s.width.size,
                              " is computed without cuDNN, slowly (", what, "): ", why));
}

class CudnnConv2D : public OwnConv2D {
 public:
  CudnnConv2D(Engine& engine, const ConvShape& s, std::unique_ptr<Convolution> convolution,
              bool padded)
      : OwnConv2D(engine, s),
        convolution_(std::move(convolution)),
        can_(convolution_->can()),
        padded_(padded) {}

  void Forward(const float* x, const float* kernel, const float* bias, float* y) override {
    if (!can_.forward || !Aligned(y)) return OwnConv2D::Forward(x, kernel, bias, y);
    const float* image = Image(x);
    const float* filter = Filter(kernel);
    Call("convolution", can_.forward, filter != nullptr && image != nullptr, [&](void* workspace) {
      return convolution_->Forward(image, filter, y, workspace, engine_.stream());
    });
    if (!can_.forward) return OwnConv2D::Forward(x, kernel, bias, y);
    FinishForward(bias, y);
  }
  void BackwardInput(const float* dy, const float* kernel, float* dx) override {
    if (!can_.data || !Aligned(dy) || !(padded_ || Aligned(dx))) {
      return OwnConv2D::BackwardInput(dy, kernel, dx);
    }
    const float* filter = Filter(kernel);
    float* image = padded_ ? engine_.Work<float>(Scratch::kRows, PaddedSize()) : dx;
    Call("convolution, gradient of the input", can_.data, filter != nullptr && image != nullptr,
         [&](void* workspace) {
           return convolution_->BackwardData(filter, dy, image, workspace, engine_.stream());
         });
    if (!can_.data) return OwnConv2D::BackwardInput(dy, kernel, dx);
    if (!padded_ || image == nullptr) return;
    const Walk out = PaddingWalk();
    CopyWalk(engine_, {out.dims, out.y, {}, out.a}, false, image + Corner(), dx);
  }
  void BackwardKernel(const float* x, const float* dy, float* dkernel, float* dbias) override {
    if (!can_.filter || !Aligned(dy)) return OwnConv2D::BackwardKernel(x, dy, dkernel, dbias);
    const float* image = Image(x);
    float* filter = engine_.Work<float>(Scratch::kMore, KernelSize(s_));
    Call("convolution, gradient of the kernel", can_.filter, filter != nullptr && image != nullptr,
         [&](void* workspace) {
           return convolution_->BackwardFilter(image, dy, filter, workspace, engine_.stream());
         });
    if (!can_.filter) return OwnConv2D::BackwardKernel(x, dy, dkernel, dbias);
    const int64_t out = s_.out_channels, each = KernelSize(s_) / out;
    if (filter != nullptr) {
      CopyWalk(engine_, {{each, out}, {1, each}, {}, {out, 1}}, false, filter, dkernel);
    }
    BackwardBias(dy, dbias);
  }

 private:
  int64_t PaddedHeight() const { return s_.height.in + s_.height.pad_before + s_.height.pad_after; }
  int64_t PaddedWidth() const { return s_.width.in + s_.width.pad_before + s_.width.pad_after; }
  int64_t PaddedSize() const { return s_.batch * PaddedHeight() * PaddedWidth() * s_.in_channels; }
  // Of the image within the padded one.
  int64_t Corner() const {
    return (s_.height.pad_before * PaddedWidth() + s_.width.pad_before) * s_.in_channels;
  }
  Walk PaddingWalk() const {
    const int64_t row = s_.width.in * s_.in_channels, padded = PaddedWidth() * s_.in_channels;
    return {{s_.batch, s_.height.in, row},
            {s_.height.in * row, row, 1},
            {},
            {PaddedHeight() * padded, padded, 1}};
  }
  const float* Image(const float* x) {
    if (!padded_) return AlignedImage(x);
    float* image = engine_.Work<float>(Scratch::kRows, PaddedSize());
    if (image == nullptr) return nullptr;
    engine_.Map("fill", PaddedSize(), FillBody{0, image});
    CopyWalk(engine_, PaddingWalk(), false, x, image + Corner());
    return image;
  }
  // A plan of memory has a place for the copy wherever examples are such that one may be needed.
  const float* AlignedImage(const float* x) {
    const int64_t all = Inputs(s_);
    const bool copied = !Aligned(x), slices_may_be = all / s_.batch * 4 % kTogether != 0;
    if (!copied && !slices_may_be) return x;
    float* image = engine_.Work<float>(Scratch::kRows, all);
    if (image == nullptr || !copied) return image == nullptr ? nullptr : x;
    CopyWalk(engine_, {{all}, {1}, {}, {1}}, false, x, image);
    return image;
  }
  const float* Filter(const float* kernel) {
    float* filter = engine_.Work<float>(Scratch::kMore, KernelSize(s_));
    if (filter == nullptr) return nullptr;
    const int64_t out = s_.out_channels, each = KernelSize(s_) / out;
    CopyWalk(engine_, {{out, each}, {1, out}, {}, {each, 1}}, false, kernel, filter);
    return filter;
  }
  // `can` is false from then on, and nothing was done, if cuDNN refuses.
  template <class Run>
  void Call(const char* what, bool& can, bool ready, const Run& run) {
    if (!ready || !engine_.ok()) return;
    const size_t bytes = convolution_->workspace_bytes();
    void* workspace =
        engine_.Work<char>(Scratch::kWorkspace, static_cast<int64_t>(std::max<size_t>(bytes, 1)));
    if (workspace == nullptr) return;
    engine_.Do(what, [&] {
      absl::Status ran = run(workspace);
      if (!absl::IsUnimplemented(ran)) return ran;
      can = false;
      SaySlow(engine_, s_, can_, ran.message());
      return absl::OkStatus();
    });
  }

  const std::unique_ptr<Convolution> convolution_;
  Directions can_;
  const bool padded_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Conv2D>> MakeConv2D(Engine& engine, const ConvShape& s) {
  // What lies behind the last window is neither padded nor read.
  const auto alike = [](const WindowAxis& axis) {
    const int64_t reach = (axis.size - 1) * axis.dilation + 1;
    return axis.out == (axis.in + 2 * axis.pad_before - reach) / axis.stride + 1;
  };
  const bool padded = !alike(s.height) || !alike(s.width);
  const int64_t padded_height =
      s.height.in + (padded ? s.height.pad_before + s.height.pad_after : 0);
  const int64_t padded_width = s.width.in + (padded ? s.width.pad_before + s.width.pad_after : 0);
  const int64_t image = s.batch * padded_height * padded_width * s.in_channels;
  // Its descriptors count no further.
  if (std::max(image, Outputs(s)) > std::numeric_limits<int32_t>::max()) {
    return std::make_unique<OwnConv2D>(engine, s);
  }
  const ConvCall call{.batch = s.batch,
                      .in_channels = s.in_channels,
                      .out_channels = s.out_channels,
                      .groups = s.groups,
                      .in_height = padded_height,
                      .in_width = padded_width,
                      .out_height = s.height.out,
                      .out_width = s.width.out,
                      .height = s.height.size,
                      .width = s.width.size,
                      .pad_height = padded ? 0 : s.height.pad_before,
                      .pad_width = padded ? 0 : s.width.pad_before,
                      .stride_height = s.height.stride,
                      .stride_width = s.width.stride,
                      .dilation_height = s.height.dilation,
                      .dilation_width = s.width.dilation,
                      .tf32 = engine.operands() != Operands::kFloat32,
                      .workspace_max = engine.workspace_max()};
  absl::StatusOr<std::unique_ptr<Convolution>> made = engine.runtime().MakeConvolution(call);
  const Directions can = made.ok() ? (*made)->can() : Directions{false, false, false};
  // If the device is lost cuDNN says only that it failed, or that it cannot.
  if (!can.forward || !can.data || !can.filter) {
    RETURN_IF_ERROR(engine.runtime().Synchronize(engine.stream()));
  }
  if (!made.ok() && !absl::IsUnimplemented(made.status())) return made.status();
  SaySlow(engine, s, can, made.ok() ? "it has no algorithm" : made.status().message());
  if (!made.ok()) return std::make_unique<OwnConv2D>(engine, s);
  return std::make_unique<CudnnConv2D>(engine, s, *std::move(made), padded);
}

}  // namespace paracord::cuda
