// Embedding and Masking, the layers that make masks of steps.
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/table_layer.h"
#include "keras/layers/walks.h"
#include "tensor/row_ids.h"

namespace paracord {
namespace {

class IdMaskLayer : public Layer, public IdMask {
 public:
  explicit IdMaskLayer(const Layer& of) : Layer(of) {}
  bool differentiable() const override { return false; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override { return inputs[0]; }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    return std::make_unique<IdMaskKernel>(ops, batch * Elements(inputs[0]));
  }

 private:
  // Encoded nonzero ids are above 0; -1 stands for the id 0.
  class IdMaskKernel : public Kernel {
   public:
    IdMaskKernel(Ops& ops, int64_t n) : ops_(ops), n_(n) {}
    void Forward(const ForwardCall& call) override {
      ops_.Activate({ActivationKind::kRelu}, 1, n_, call.inputs[0], call.output);
      ops_.Activate({ActivationKind::kNotEqual}, 1, n_, call.output, call.output);
    }
    void Backward(const BackwardCall&) override {}

   private:
    Ops& ops_;
    const int64_t n_;
  };
};

class EmbeddingLayer : public Layer, public TableLayer {
 public:
  explicit EmbeddingLayer(LayerConfig& config)
      : Layer(config),
        rows_(config.RequiredInteger("input_dim", 1, kTableRowsMax)),
        width_(config.RequiredInteger("output_dim", 1)),
        mask_zero_(config.Flag("mask_zero", false)),
        initializer_(config.InitializerOf("embeddings_initializer", "random_uniform")) {
    config.Ignore("input_length");
    config.Flag("sparse", false);
  }

  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    RETURN_IF_ERROR(Declare(0, "embeddings", {rows_, width_}, initializer_));
    Shape output = inputs[0];
    output.push_back(width_);
    return output;
  }
  MaskRule mask_rule() const override { return mask_zero_ ? MaskRule::kCompute : MaskRule::kStop; }
  std::unique_ptr<Layer> MakeMaskLayer(std::span<const Shape>) const override {
    return MakeIdMask(*this);
  }
  std::optional<int64_t> ids_below() const override {
    return growing_ ? std::nullopt : std::optional(rows_);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    return std::make_unique<EmbeddingKernel>(ops, batch * Elements(inputs[0]), *this);
  }

 private:
  class EmbeddingKernel : public Kernel {
   public:
    EmbeddingKernel(Ops& ops, int64_t count, const EmbeddingLayer& layer)
        : ops_(ops), count_(count), width_(layer.width_), layer_(layer) {}
    void Forward(const ForwardCall& call) override {
      ops_.Gather(count_, width_, layer_.RowsThere(layer_.rows_), call.inputs[0],
                  call.parameters[0], call.output);
    }
    void Backward(const BackwardCall& call) override {
      if (call.d_inputs[0] != nullptr) ops_.Fill(count_, 0, call.d_inputs[0]);
      if (call.d_parameters[0] == nullptr) return;
      ops_.ScatterAdd(count_, width_, layer_.RowsThere(layer_.rows_), call.inputs[0], call.d_output,
                      call.d_parameters[0]);
    }

   private:
    Ops& ops_;
    const int64_t count_, width_;
    const EmbeddingLayer& layer_;
  };
  const int64_t rows_, width_;
  const bool mask_zero_;
  const Initializer initializer_;
};

// The mask of a Masking layer: 1 for each step with any value different from `value`.
class StepMask {
 public:
  StepMask(Ops& ops, int64_t steps, int64_t width, float value, DeviceArray wide)
      : ops_(ops), steps_(steps), width_(width), value_(value), wide_(std::move(wide)) {}
  void Run(const float* x, float* mask) {
    ops_.Activate({ActivationKind::kNotEqual, value_}, steps_, width_, x, wide_.get());
    ops_.Fill(steps_, 0, mask);
    ops_.Copy({{steps_, width_}, {width_, 1}, {}, {1, 0}}, true, wide_.get(), mask);
    ops_.Activate({ActivationKind::kNotEqual, 0}, 1, steps_, mask, mask);
  }

 private:
  Ops& ops_;
  const int64_t steps_, width_;
  const float value_;
  DeviceArray wide_;
};

class MaskingLayer : public Layer {
 public:
  // `mask_only` computes the mask instead of the masked input.
  template <class Of>
  MaskingLayer(const Of& of, float value, bool mask_only)
      : Layer(of), value_(value), mask_only_(mask_only) {}

  bool differentiable() const override { return !mask_only_; }
  MaskRule mask_rule() const override { return MaskRule::kCompute; }
  std::unique_ptr<Layer> MakeMaskLayer(std::span<const Shape>) const override {
    return std::make_unique<MaskingLayer>(static_cast<const Layer&>(*this), value_, true);
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    if (inputs[0].size() < 2) return absl::InvalidArgumentError("needs an input of steps");
    Shape output = inputs[0];
    if (mask_only_) output.pop_back();
    return output;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const int64_t n = batch * Elements(inputs[0]), width = inputs[0].back();
    ASSIGN_OR_RETURN(auto wide, ops.Allocate(n));
    ASSIGN_OR_RETURN(auto mask, ops.Allocate(n / width));
    return std::make_unique<MaskingKernel>(ops,
                                           StepMask(ops, n / width, width, value_, std::move(wide)),
                                           n / width, width, mask_only_, std::move(mask));
  }

 private:
  class MaskingKernel : public Kernel {
   public:
    MaskingKernel(Ops& ops, StepMask step_mask, int64_t steps, int64_t width, bool mask_only,
                  DeviceArray mask)
        : ops_(ops),
          step_mask_(std::move(step_mask)),
          mask_only_(mask_only),
          mask_(std::move(mask)),
          apply_{{steps, width}, {width, 1}, {1, 0}, {width, 1}} {}
    void Forward(const ForwardCall& call) override {
      if (mask_only_) return step_mask_.Run(call.inputs[0], call.output);
      step_mask_.Run(call.inputs[0], mask_.get());
      ops_.Binary(BinaryKind::kMultiply, apply_, call.inputs[0], mask_.get(), call.output);
    }
    void Backward(const BackwardCall& call) override {
      if (call.d_inputs[0] == nullptr) return;
      ops_.Binary(BinaryKind::kMultiply, apply_, call.d_output, mask_.get(), call.d_inputs[0]);
    }

   private:
    Ops& ops_;
    StepMask step_mask_;
    const bool mask_only_;
    const DeviceArray mask_;
    const Walk apply_;
  };

  const float value_;
  const bool mask_only_;
};

}  // namespace

std::unique_ptr<Layer> MakeIdMask(const Layer& of) { return std::make_unique<IdMaskLayer>(of); }
std::unique_ptr<Layer> MakeEmbedding(LayerConfig& config) {
  return std::make_unique<EmbeddingLayer>(config);
}
std::unique_ptr<Layer> MakeMasking(LayerConfig& config) {
  return std::make_unique<MaskingLayer>(config, static_cast<float>(config.Number("mask_value", 0)),
                                        false);
}

}  // namespace paracord
