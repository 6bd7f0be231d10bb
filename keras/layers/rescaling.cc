// Rescaling by arrays broadcast over the last axes, for example a number for each channel in
// EfficientNet. (Rescaling by a single number is an activation.)
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"
#include "keras/layers/number_array.h"
#include "keras/layers/walks.h"

namespace paracord {
namespace {

class RescalingKernel : public Kernel {
 public:
  struct Numbers {
    Walk walk;  // over the input and the numbers
    DeviceArray values;
  };
  RescalingKernel(Ops& ops, Numbers scale, Numbers offset)
      : ops_(ops), scale_(std::move(scale)), offset_(std::move(offset)) {}
  void Forward(const ForwardCall& call) override {
    ops_.Binary(BinaryKind::kMultiply, scale_.walk, call.inputs[0], scale_.values.get(),
                call.output);
    ops_.Binary(BinaryKind::kAdd, offset_.walk, call.output, offset_.values.get(), call.output);
  }
  void Backward(const BackwardCall& call) override {
    if (call.d_inputs[0] == nullptr) return;
    ops_.Binary(BinaryKind::kMultiply, scale_.walk, call.d_output, scale_.values.get(),
                call.d_inputs[0]);
  }

 private:
  Ops& ops_;
  const Numbers scale_, offset_;
};

// y = scale x + offset
class RescalingLayer : public Layer {
 public:
  RescalingLayer(LayerConfig& config, NumberArray scale, NumberArray offset)
      : Layer(config),
        scale_(std::move(scale)),
        offset_(std::move(offset)),
        mask_rule_(config.keras2() ? MaskRule::kStop : MaskRule::kPass) {}
  MaskRule mask_rule() const override { return mask_rule_; }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    const Shape& input = inputs[0];
    for (const auto& [key, array] : {std::pair("scale", &scale_), std::pair("offset", &offset_)}) {
      const auto aligned = AlignedShape(array->shape, input.size());
      const bool fits = aligned.ok() && std::ranges::equal(*aligned, input, [](auto n, auto size) {
                          return n == 1 || n == size;
                        });
      if (fits) continue;
      return absl::InvalidArgumentError(absl::StrCat("key \"", key, "\": numbers of shape ",
                                                     ShapeName(array->shape),
                                                     " do not fit an input of ", ShapeName(input)));
    }
    return input;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    ASSIGN_OR_RETURN(auto scale, Upload(ops, batch, inputs[0], scale_));
    ASSIGN_OR_RETURN(auto offset, Upload(ops, batch, inputs[0], offset_));
    return std::make_unique<RescalingKernel>(ops, std::move(scale), std::move(offset));
  }

 private:
  static absl::StatusOr<RescalingKernel::Numbers> Upload(Ops& ops, int64_t batch,
                                                         const Shape& input,
                                                         const NumberArray& array) {
    const Shape whole = WithBatch(batch, input);
    const auto n = static_cast<int64_t>(array.values.size());
    ASSIGN_OR_RETURN(DeviceArray values, ops.Allocate(n));
    ops.Upload(n, array.values.data(), values.get());
    ASSIGN_OR_RETURN(const Shape aligned, AlignedShape(array.shape, input.size()));
    Walk walk{whole, RowMajor(whole), BroadcastSteps(1, aligned, input), RowMajor(whole)};
    walk.b[0] = 0;  // shared by every example
    return RescalingKernel::Numbers{Shorten(std::move(walk)), std::move(values)};
  }

  const NumberArray scale_, offset_;
  const MaskRule mask_rule_;
};

NumberArray ReadNumbers(LayerConfig& config, const char* key, float otherwise) {
  const nlohmann::json* value = config.Value(key);
  if (value == nullptr) return {{}, {otherwise}};
  const nlohmann::json* array = ArrayValue(*value);
  std::optional<NumberArray> numbers = ReadNumberArray(array != nullptr ? *array : *value);
  const auto finite = [](float number) { return std::isfinite(number); };
  if (numbers && std::ranges::all_of(numbers->values, finite)) return *std::move(numbers);
  config.Fail(key, absl::StrCat("must be a number or lists of them, not ", Shown(*value)));
  return {{}, {otherwise}};
}

}  // namespace

std::unique_ptr<Layer> MakeArrayRescaling(LayerConfig& config) {
  NumberArray scale = ReadNumbers(config, "scale", 1);
  NumberArray offset = ReadNumbers(config, "offset", 0);
  return std::make_unique<RescalingLayer>(config, std::move(scale), std::move(offset));
}

}  // namespace paracord
