// A convolution of bfloat16 tensors on devices that only convolve float32: converts the inputs
// before, and the results after.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "tensor/ops.h"

namespace paracord {

class WideConv2D : public Conv2D {
 public:
  // `x` and `y` have room for the shape's x and y as float32; each is null if its tensor is float32
  // itself.
  WideConv2D(Ops& ops, const ConvShape& s, std::unique_ptr<Conv2D> conv, DeviceArray x,
             DeviceArray y)
      : ops_(ops),
        conv_(std::move(conv)),
        inputs_(s.inputs()),
        outputs_(s.outputs()),
        x_(std::move(x)),
        y_(std::move(y)) {}

  void Forward(ConstTensor x, const float* kernel, const float* bias, Tensor y) override {
    conv_->Forward(Wide(x, inputs_, x_), kernel, bias, Room(y, y_));
    Return(outputs_, y_, y);
  }
  void Backward(const ConvGradients& g) override {
    const ConstTensor dy = Wide(g.dy, outputs_, y_);
    if (g.dkernel != nullptr) {
      conv_->Backward(
          {.dy = dy, .dkernel = g.dkernel, .dbias = g.dbias, .x = Wide(g.x, inputs_, x_)});
    }
    if (g.dx == nullptr) return;
    conv_->Backward({.dy = dy, .dx = Room(g.dx, x_), .kernel = g.kernel});
    Return(inputs_, x_, g.dx);
  }

 private:
  ConstTensor Wide(ConstTensor from, int64_t n, const DeviceArray& room) {
    if (from.bfloat16 == nullptr) return from;
    ops_.Convert(n, from, room.get());
    return room.get();
  }
  static Tensor Room(Tensor to, const DeviceArray& room) {
    return to.bfloat16 == nullptr ? to : Tensor(room.get());
  }
  void Return(int64_t n, const DeviceArray& room, Tensor to) {
    if (to.bfloat16 != nullptr) ops_.Convert(n, room.get(), to);
  }

  Ops& ops_;
  const std::unique_ptr<Conv2D> conv_;
  const int64_t inputs_, outputs_;
  const DeviceArray x_, y_;
};

inline absl::StatusOr<std::unique_ptr<Conv2D>> MakeWideConv2D(Ops& ops, const ConvShape& shape) {
  ConvShape wide = shape;
  wide.x_bfloat16 = wide.y_bfloat16 = false;
  ASSIGN_OR_RETURN(auto conv, ops.MakeConv2D(wide));
  DeviceArray x, y;
  if (shape.x_bfloat16) {
    ASSIGN_OR_RETURN(x, ops.Allocate(shape.inputs()));
  }
  if (shape.y_bfloat16) {
    ASSIGN_OR_RETURN(y, ops.Allocate(shape.outputs()));
  }
  return std::make_unique<WideConv2D>(ops, shape, std::move(conv), std::move(x), std::move(y));
}

}  // namespace paracord
