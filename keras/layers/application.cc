// Layers defined inside models of keras.applications.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

// ConvNeXt's LayerScale multiplies each channel by a trained number.
class ScaleLayer : public Layer {
 public:
  explicit ScaleLayer(LayerConfig& config)
      : Layer(config), channels_(config.Integer("projection_dim", 1, 1)) {
    initial_.set_name("constant");
    (*initial_.mutable_options())["value"] = config.Number("init_values", 0);
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs[0].empty() || inputs[0].back() != channels_) {
      return absl::InvalidArgumentError(absl::StrCat("key \"projection_dim\": is ", channels_,
                                                     ", and the input ", ShapeName(inputs[0])));
    }
    RETURN_IF_ERROR(Declare(0, "gamma", {channels_}, initial_));
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const int64_t n = batch * Elements(inputs[0]);
    ASSIGN_OR_RETURN(auto products, ops.Allocate(n));
    return std::make_unique<ScaleKernel>(ops, n / channels_, channels_, std::move(products));
  }

 private:
  class ScaleKernel : public Kernel {
   public:
    ScaleKernel(Ops& ops, int64_t rows, int64_t channels, DeviceArray products)
        : ops_(ops), rows_(rows), channels_(channels), products_(std::move(products)) {}
    void Forward(const ForwardCall& call) override {
      ops_.Binary(BinaryKind::kMultiply, ByChannel(), call.inputs[0], call.parameters[0],
                  call.output);
    }
    void Backward(const BackwardCall& call) override {
      if (float* d = call.d_parameters[0]) {
        ops_.Binary(BinaryKind::kMultiply, {{rows_ * channels_}, {1}, {1}, {1}}, call.d_output,
                    call.inputs[0], products_.get());
        ops_.Fill(channels_, 0, d);
        ops_.Copy({{rows_, channels_}, {channels_, 1}, {}, {0, 1}}, true, products_.get(), d);
      }
      if (float* d = call.d_inputs[0]) {
        ops_.Binary(BinaryKind::kMultiply, ByChannel(), call.d_output, call.parameters[0], d);
      }
    }

   private:
    Walk ByChannel() const { return {{rows_, channels_}, {channels_, 1}, {0, 1}, {channels_, 1}}; }

    Ops& ops_;
    const int64_t rows_, channels_;
    const DeviceArray products_;
  };

  const int64_t channels_;
  Initializer initial_;
};

// InceptionResNetV2's CustomScaleLayer adds the second input times a factor to the first.
class ResidualLayer : public Layer {
 public:
  explicit ResidualLayer(LayerConfig& config)
      : Layer(config), scale_(static_cast<float>(config.Number("scale", 1))) {}
  size_t most_inputs() const override { return 2; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs.size() != 2 || inputs[0] != inputs[1]) {
      return absl::InvalidArgumentError("needs two inputs of one shape");
    }
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    return std::make_unique<ResidualKernel>(ops, batch * Elements(inputs[0]), scale_);
  }

 private:
  class ResidualKernel : public Kernel {
   public:
    ResidualKernel(Ops& ops, int64_t n, float scale) : ops_(ops), n_(n), scale_(scale) {}
    void Forward(const ForwardCall& call) override {
      ops_.Affine(n_, scale_, 0, call.inputs[1], call.output);
      ops_.Add(n_, call.inputs[0], call.output);
    }
    void Backward(const BackwardCall& call) override {
      const float scales[] = {1, scale_};
      for (size_t i = 0; i < 2; ++i) {
        if (call.d_inputs[i] == nullptr) continue;
        ops_.Affine(n_, scales[i], 0, call.d_output, call.d_inputs[i]);
      }
    }

   private:
    Ops& ops_;
    const int64_t n_;
    const float scale_;
  };

  const float scale_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayerScale(LayerConfig& config) {
  return std::make_unique<ScaleLayer>(config);
}
std::unique_ptr<Layer> MakeCustomScaleLayer(LayerConfig& config) {
  return std::make_unique<ResidualLayer>(config);
}

}  // namespace paracord
