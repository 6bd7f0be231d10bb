// Pooling over steps and images, within windows or over everything.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"
#include "keras/layers/window.h"

namespace paracord {
namespace {

class PoolKernel : public Kernel {
 public:
  explicit PoolKernel(std::unique_ptr<Pool2D> pool) : pool_(std::move(pool)) {}
  void Forward(const ForwardCall& call) override { pool_->Forward(call.inputs[0], call.output); }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] != nullptr) pool_->Backward(call.d_output, call.d_inputs[0]);
  }

 private:
  const std::unique_ptr<Pool2D> pool_;
};

class PoolLayer : public Layer {
 public:
  PoolLayer(LayerConfig& config, size_t axes, bool max)
      : Layer(config), axes_(axes), max_(max), window_(config, axes, "pool_size", "", 0) {}

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Window::Axes axes, window_.Over(inputs[0]));
    return axes.Output(axes_, inputs[0].back());
  }
  int64_t Arithmetic(std::span<const Shape>, const Shape& output) const override {
    return Elements(output) * window_.height.size * window_.width.size;
  }
  Bfloat16 TakesBfloat16(Ops&, std::span<const Shape>) const override {
    return Bfloat16::kIfComputed;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(const Window::Axes axes, window_.Over(inputs[0]));
    ASSIGN_OR_RETURN(auto pool,
                     ops.MakePool2D({max_, batch, inputs[0].back(), axes.height, axes.width}));
    return std::make_unique<PoolKernel>(std::move(pool));
  }

 private:
  const size_t axes_;
  const bool max_;
  const Window window_;
};

// The mean of the visible steps: sum(x m) / sum(m).
class MaskedMeanKernel : public Kernel {
 public:
  MaskedMeanKernel(Ops& ops, int64_t batch, const Shape& in, DeviceArray count, DeviceArray wide)
      : ops_(ops),
        batch_(batch),
        steps_(in[0]),
        channels_(in[1]),
        count_(std::move(count)),
        wide_(std::move(wide)) {
    const int64_t each = steps_ * channels_;
    const std::vector<int64_t> dense{each, channels_, 1};
    by_mask_ = {{batch_, steps_, channels_}, dense, {steps_, 1, 0}, dense};
    over_steps_ = {{batch_, steps_, channels_}, dense, {}, {channels_, 0, 1}};
    by_count_ = {{batch_, channels_}, {channels_, 1}, {1, 0}, {channels_, 1}};
    spread_ = {{batch_, steps_, channels_}, {channels_, 0, 1}, {steps_, 1, 0}, dense};
  }
  void Forward(const ForwardCall& call) override {
    ops_.Binary(BinaryKind::kMultiply, by_mask_, call.inputs[0], call.inputs[1], wide_.get());
    ops_.Fill(batch_ * channels_, 0, call.output);
    ops_.Copy(over_steps_, true, wide_.get(), call.output);
    ops_.Fill(batch_, 0, count_.get());
    ops_.Copy({{batch_, steps_}, {steps_, 1}, {}, {1, 0}}, true, call.inputs[1], count_.get());
    ops_.Binary(BinaryKind::kDivide, by_count_, call.output, count_.get(), call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    ops_.Binary(BinaryKind::kDivide, by_count_, call.d_output, count_.get(), call.d_output);
    ops_.Binary(BinaryKind::kMultiply, spread_, call.d_output, call.inputs[1], call.d_inputs[0]);
  }

 private:
  Ops& ops_;
  const int64_t batch_, steps_, channels_;
  const DeviceArray count_, wide_;
  Walk by_mask_, over_steps_, by_count_, spread_;
};

// The largest of all steps or pixels; equal maxima share the gradient.
class GlobalMaxKernel : public Kernel {
 public:
  GlobalMaxKernel(Ops& ops, std::unique_ptr<Pool2D> pool, int64_t batch, int64_t places,
                  int64_t channels, DeviceArray wide, DeviceArray share)
      : ops_(ops),
        pool_(std::move(pool)),
        sums_(batch * channels),
        wide_(std::move(wide)),
        share_(std::move(share)) {
    const std::vector<int64_t> dense{places * channels, channels, 1}, one{channels, 0, 1};
    spread_ = {{batch, places, channels}, dense, one, dense};
    over_places_ = {spread_.dims, dense, {}, one};
  }
  void Forward(const ForwardCall& call) override { pool_->Forward(call.inputs[0], call.output); }
  void Backward(const BackwardCall& call) override {
    float* const dx = call.d_inputs[0];
    if (dx == nullptr) return;
    ops_.Binary(BinaryKind::kGreaterEqual, spread_, call.inputs[0], call.output, wide_.get());
    ops_.Fill(sums_, 0, share_.get());
    ops_.Copy(over_places_, true, wide_.get(), share_.get());
    ops_.Binary(BinaryKind::kDivide, {{sums_}, {1}, {1}, {1}}, call.d_output, share_.get(),
                share_.get());
    ops_.Binary(BinaryKind::kMultiply, spread_, wide_.get(), share_.get(), dx);
  }

 private:
  Ops& ops_;
  const std::unique_ptr<Pool2D> pool_;
  const int64_t sums_;
  const DeviceArray wide_, share_;
  Walk spread_, over_places_;
};

class GlobalPoolLayer : public Layer {
 public:
  GlobalPoolLayer(LayerConfig& config, size_t axes, bool max)
      : Layer(config), axes_(axes), max_(max), keep_(config.Flag("keepdims", false)) {
    config.Choice("data_format", "channels_last", {"channels_last"});
  }
  bool takes_masks() const override { return axes_ == 1 && !max_; }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs[0].size() != axes_ + 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs an input of ", axes_ + 1, " axes, not ", ShapeName(inputs[0])));
    }
    if (IsMasked(inputs) && inputs[1] != Shape{inputs[0][0]}) {
      return WrongMask(inputs[1], inputs[0]);
    }
    Shape output = keep_ ? Shape(axes_, 1) : Shape();
    output.push_back(inputs[0].back());
    return output;
  }
  Bfloat16 TakesBfloat16(Ops&, std::span<const Shape> inputs) const override {
    return !max_ && !IsMasked(inputs) ? Bfloat16::kIfComputed : Bfloat16::kNever;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const Shape& in = inputs[0];
    if (IsMasked(inputs)) {
      ASSIGN_OR_RETURN(auto count, ops.Allocate(batch));
      ASSIGN_OR_RETURN(auto wide, ops.Allocate(batch * Elements(in)));
      return std::make_unique<MaskedMeanKernel>(ops, batch, in, std::move(count), std::move(wide));
    }
    const auto all = [](int64_t n) {
      return WindowAxis{.in = n, .out = 1, .size = n, .stride = n};
    };
    const int64_t columns = in[axes_ - 1];
    int64_t rows = 1;  // rows of all images of a volume
    for (size_t i = 0; i + 1 < axes_; ++i) rows *= in[i];
    ASSIGN_OR_RETURN(auto pool, ops.MakePool2D({max_, batch, in.back(), all(rows), all(columns)}));
    if (!max_) return std::make_unique<PoolKernel>(std::move(pool));
    ASSIGN_OR_RETURN(auto wide, ops.Allocate(batch * Elements(in)));
    ASSIGN_OR_RETURN(auto share, ops.Allocate(batch * in.back()));
    return std::make_unique<GlobalMaxKernel>(ops, std::move(pool), batch, rows * columns, in.back(),
                                             std::move(wide), std::move(share));
  }

 private:
  static bool IsMasked(std::span<const Shape> inputs) {
    return inputs.size() > 1 && !inputs[1].empty();
  }
  const size_t axes_;
  const bool max_, keep_;
};

}  // namespace

std::unique_ptr<Layer> MakePooling(LayerConfig& config) {
  const std::string& name = config.class_name();
  return std::make_unique<PoolLayer>(config, name.ends_with("2D") ? 2 : 1, name.starts_with("Max"));
}
std::unique_ptr<Layer> MakeGlobalPooling(LayerConfig& config) {
  const std::string& name = config.class_name();
  return std::make_unique<GlobalPoolLayer>(config, AxesOfName(name), name.starts_with("GlobalMax"));
}

}  // namespace paracord
