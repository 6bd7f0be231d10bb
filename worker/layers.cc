#include "worker/layers.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/unknown_name.h"

namespace paracord {
namespace {

struct LayerEntry {
  std::string_view class_name;
  std::unique_ptr<Layer> (*make)(LayerConfig&);
};

constexpr std::array<LayerEntry, 9> kLayers{{
    {"Activation", MakeActivation},
    {"AveragePooling2D", MakeAveragePooling2D},
    {"Conv2D", MakeConv2D},
    {"Dense", MakeDense},
    {"Dropout", MakeDropout},
    {"Flatten", MakeFlatten},
    {"MaxPooling2D", MakeMaxPooling2D},
    {"Rescaling", MakeRescaling},
    {"Reshape", MakeReshape},
}};

// No tensor of ours is larger, whatever a model file says; products below stay far from overflow.
constexpr int64_t kElementsMax = int64_t{1} << 40;

}  // namespace

int64_t Elements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

int64_t VariableElements(const VariableSpec& variable) {
  int64_t product = 1;
  for (const uint64_t dim : variable.shape()) product *= static_cast<int64_t>(dim);
  return product;
}

std::string ShapeName(const Shape& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
}

absl::Status CheckElements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) {
    if (dim < 0 || (dim != 0 && product > kElementsMax / dim)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ShapeName(shape), " is beyond ", kElementsMax, " elements"));
    }
    product *= dim;
  }
  return absl::OkStatus();
}

absl::Status Layer::Declare(size_t index, const std::string& variable, const Shape& shape,
                            const Initializer& initializer) {
  RETURN_IF_ERROR(CheckElements(shape));
  if (index < variables_.size()) {
    const auto& have = variables_[index].shape();
    if (std::equal(have.begin(), have.end(), shape.begin(), shape.end(),
                   [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); })) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("is called with inputs that need ", variable, " to be ", ShapeName(shape),
                     ", but an earlier call made it (", absl::StrJoin(have, ", "), ")"));
  }
  VariableSpec spec;
  spec.set_name(absl::StrCat(name_, "/", variable));
  for (const int64_t dim : shape) spec.add_shape(static_cast<uint64_t>(dim));
  spec.set_dtype(FLOAT32);
  *spec.mutable_initializer() = initializer;
  spec.set_trainable(trainable_);
  variables_.push_back(std::move(spec));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(LayerConfig& config) {
  std::vector<std::string_view> known{"InputLayer"};
  for (const LayerEntry& entry : kLayers) {
    if (entry.class_name == config.class_name()) {
      std::unique_ptr<Layer> layer = entry.make(config);
      RETURN_IF_ERROR(config.Finish());
      return layer;
    }
    known.push_back(entry.class_name);
  }
  return absl::InvalidArgumentError(absl::StrCat(LayerTitle(config.class_name(), config.name()),
                                                 NotSupported(config.class_name(), known)));
}

}  // namespace paracord
