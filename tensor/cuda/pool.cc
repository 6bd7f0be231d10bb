// Pooling by kernels of our own.
#include "common/status_macros.h"
#include "tensor/cuda/engine.h"
#include "tensor/cuda/window.h"
#include "tensor/pool_part.h"

namespace paracord::cuda {
namespace {

class OwnPool2D : public Pool2D {
 public:
  OwnPool2D(Engine& engine, const PoolShape& s, DeviceArray taps)
      : engine_(engine), s_(s), memory_(std::move(taps)) {}

  void Forward(ConstTensor x, Tensor y) override {
    engine_.Map("pooling", s_.batch * s_.height.out * s_.width.out * Channels(),
                PoolBody{s_, x, y, taps(), PoolPart(s_)});
  }
  void Backward(ConstTensor dy, Tensor dx) override {
    engine_.Map("pooling, gradient", s_.batch * s_.height.in * s_.width.in * Channels(),
                PoolBackwardBody{s_, dy, taps(), dx});
  }

 private:
  // The number of threads that share a pixel.
  int64_t Channels() const { return s_.channels / PoolTogether(s_.channels); }
  int* taps() const { return reinterpret_cast<int*>(memory_.get()); }
  Engine& engine_;
  const PoolShape s_;
  const DeviceArray memory_;  // an int for each output
};

}  // namespace

absl::StatusOr<std::unique_ptr<Pool2D>> MakePool2D(Engine& engine, const PoolShape& s) {
  static_assert(sizeof(int) == sizeof(float));
  ASSIGN_OR_RETURN(DeviceArray taps,
                   engine.Allocate(s.batch * s.height.out * s.width.out * s.channels));
  return std::make_unique<OwnPool2D>(engine, s, std::move(taps));
}

}  // namespace paracord::cuda
