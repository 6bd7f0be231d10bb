// Convolution by our own slow kernels, used where cuDNN has no engine, refuses at run time, or
// cannot take the tensors (unaligned, empty, or of more than 2^31 - 1 elements). Also the common
// code of the convolutions by cuDNN in float32 (conv.cc) and in 16 bits (conv_short.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/engine.h"
#include "tensor/cuda/window.h"

namespace paracord::cuda {

// Returns the number of multiplications that one element of the output takes.
inline int64_t Taps(const ConvShape& s) {
  return s.height.size * s.width.size * (s.in_channels / s.groups);
}
inline int64_t KernelSize(const ConvShape& s) { return Taps(s) * s.out_channels; }

// Logs a warning with `why`, that our own slow kernels compute the directions which are false in
// `can` (forward, the gradient of the input, the gradient of the kernel). Does nothing if all are
// true. Each Engine logs only its first such warning.
void SaySlow(Engine& engine, const ConvShape& s, const Directions& can, absl::string_view why);

constexpr int64_t kTogether = 16;  // bytes read or written by cuDNN at once
inline bool Aligned(const void* at) { return reinterpret_cast<intptr_t>(at) % kTogether == 0; }

class OwnConv2D : public Conv2D {
 public:
  OwnConv2D(Engine& engine, const ConvShape& s) : engine_(engine), s_(s) {}
  void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) override {
    engine_.Map("convolution", s_.outputs(), ConvBody{s_, x, kernel, y});
    FinishForward(bias, y);
  }
  void Backward(const ConvGradients& g) override {
    if (g.dkernel != nullptr) BackwardKernel(g);
    if (g.dx != nullptr) BackwardInput(g);
  }

 protected:
  void BackwardKernel(const ConvGradients& g) {
    engine_.Reduce("convolution, gradient of the kernel", KernelSize(s_),
                   s_.batch * s_.height.out * s_.width.out, true,
                   ConvKernelBody{s_, g.x, g.dy, g.dkernel});
    BackwardBias(g);
  }
  void BackwardInput(const ConvGradients& g) {
    engine_.Map("convolution, gradient of the input", s_.inputs(),
                ConvInputBody{s_, g.kernel, g.dy, g.dx});
  }
  void FinishForward(const float* bias, Tensor y) {
    if (!s_.bias && !s_.relu) return;
    engine_.Map("bias", s_.outputs(),
                BiasBody{s_.out_channels, s_.relu, s_.bias ? bias : nullptr, y});
  }
  void BackwardBias(const ConvGradients& g) {
    if (!s_.bias) return;
    engine_.Reduce("gradient of the bias", s_.out_channels, s_.outputs() / s_.out_channels, true,
                   SumRowsBody{s_.out_channels, g.dy, g.dbias});
  }

  Engine& engine_;
  const ConvShape s_;
};

// A convolution by cuDNN. cuDNN's filter is (out, h, w, in / groups); our kernel has `out` last.
class LibraryConv2D : public OwnConv2D {
 protected:
  LibraryConv2D(Engine& engine, const ConvShape& s, std::unique_ptr<Convolution> convolution)
      : OwnConv2D(engine, s), convolution_(std::move(convolution)), can_(convolution_->can()) {}

  // Returns the kernel in cuDNN's layout, in scratch memory; null after an error.
  const float* Filter(const float* kernel) {
    float* filter = engine_.Work<float>(Scratch::kMore, KernelSize(s_));
    if (filter == nullptr) return nullptr;
    ToFilter(kernel, filter);
    return filter;
  }
  void ToFilter(const float* kernel, Tensor filter) {
    Transpose(engine_, 1, Taps(s_), s_.out_channels, ConstTensor(kernel), filter);
  }
  void FromFilter(ConstTensor filter, float* kernel) {
    Transpose(engine_, 1, s_.out_channels, Taps(s_), filter, Tensor(kernel));
  }
  // True if all tensors, except null ones, begin at a multiple of 16 bytes.
  bool AllAligned(std::initializer_list<const void*> tensors) {
    if (std::all_of(tensors.begin(), tensors.end(), Aligned)) return true;
    SaySlow(engine_, s_, Directions{false, false, false}, "a tensor begins at no 16 bytes");
    return false;
  }
  // Calls run(workspace) if the caller has its operands (`ready`). If cuDNN refuses
  // (UNIMPLEMENTED), nothing was computed and `can` becomes false for good; the caller then uses
  // our own kernels.
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
};

}  // namespace paracord::cuda
