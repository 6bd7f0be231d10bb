// Layers that resize images, or move them at random in training. An example's random numbers depend
// only on the batch's identity and the example's index in the batch.
#include "keras/layers/image.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

// The operation of a mode on a batch of images: nothing, resizing a part, or applying random maps.
struct ImageStep {
  enum class Kind { kNothing, kResize, kMap };
  Kind kind = Kind::kNothing;
  ResampleShape shape;
  RandomMap map;
};

class ImageKernel : public Kernel {
 public:
  ImageKernel(Ops& ops, int64_t floats, ImageStep at_inference, ImageStep in_training,
              DeviceArray maps)
      : ops_(ops), floats_(floats), steps_{at_inference, in_training}, maps_(std::move(maps)) {}

  void Forward(const ForwardCall& call) override {
    step_ = &steps_[call.training ? 1 : 0];
    const ResampleShape& shape = step_->shape;
    switch (step_->kind) {
      case ImageStep::Kind::kNothing:
        return ops_.Affine(floats_, 1, 0, call.inputs[0], call.output);
      case ImageStep::Kind::kResize:
        return ops_.Resample(shape, nullptr, call.inputs[0], call.output);
      case ImageStep::Kind::kMap:
        ops_.RandomMaps(call.key, step_->map, call.first_example, shape.batch, maps_.get());
        return ops_.Resample(shape, maps_.get(), call.inputs[0], call.output);
    }
  }
  // The gradient of a map is, as in TensorFlow, the gradient image moved back by the inverse map.
  void Backward(const BackwardCall& call) override {
    float* const d = call.d_inputs[0];
    if (d == nullptr) return;
    switch (step_->kind) {
      case ImageStep::Kind::kNothing:
        return ops_.Affine(floats_, 1, 0, call.d_output, d);
      case ImageStep::Kind::kResize:
        return ops_.ResizeBackward(step_->shape, call.d_output, d);
      case ImageStep::Kind::kMap: {
        RandomMap back = step_->map;
        back.inverse = true;
        ResampleShape shape = step_->shape;
        for (ResampleAxis* axis : {&shape.height, &shape.width}) std::swap(axis->in, axis->out);
        shape.fill_value = 0;
        ops_.RandomMaps(call.key, back, call.first_example, shape.batch, maps_.get());
        return ops_.Resample(shape, maps_.get(), call.d_output, d);
      }
    }
  }

 private:
  Ops& ops_;
  const int64_t floats_;  // floats of the inputs
  const ImageStep steps_[2];
  const ImageStep* step_ = nullptr;  // step of the last forward pass
  const DeviceArray maps_;           // (batch, 6)
};

class ImageLayer : public Layer {
 public:
  explicit ImageLayer(LayerConfig& config) : Layer(config) {
    // MakeMoved handles channels_first
    config.Choice("data_format", "channels_last", {"channels_last"});
    config.Ignore("seed");  // the batch's key replaces the seed
    config.Ignore("rng_type");
  }
  absl::StatusOr<Shape> OutputShape(std::span<const Shape> inputs) override {
    RETURN_IF_ERROR(CheckImage(inputs[0]));
    return SizeFor(inputs[0]);
  }
  int64_t Arithmetic(std::span<const Shape>, const Shape& output) const override {
    return 4 * Elements(output);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(Ops& ops, int64_t batch,
                                                     std::span<const Shape> inputs) override {
    const Shape &in = inputs[0], out = SizeFor(in);
    ImageStep steps[2];
    for (ImageStep& step : steps) {
      step.shape.batch = batch;
      step.shape.channels = in[2];
      step.shape.height = {in[0], out[0], 0, in[0]};
      step.shape.width = {in[1], out[1], 0, in[1]};
      step.map.height = in[0];
      step.map.width = in[1];
      Plan(/*training=*/&step == &steps[1], step);
    }
    const bool maps = steps[1].kind == ImageStep::Kind::kMap;
    ASSIGN_OR_RETURN(DeviceArray array, ops.Allocate(maps ? batch * 6 : 0));
    return std::make_unique<ImageKernel>(ops, batch * Elements(in), steps[0], steps[1],
                                         std::move(array));
  }

 private:
  virtual Shape SizeFor(const Shape& in) const { return in; }
  virtual void Plan(bool training, ImageStep& step) const = 0;
};

// Takes the largest centred part with these proportions.
void TakeMiddle(ResampleAxis& height, ResampleAxis& width) {
  const auto fitting = [](const ResampleAxis& axis, const ResampleAxis& other) {
    const int64_t size = other.in * axis.out / other.out;
    return std::max<int64_t>(std::min(axis.in, size), 1);
  };
  height.size = fitting(height, width);
  width.size = fitting(width, height);
  for (ResampleAxis* axis : {&height, &width}) axis->begin = (axis->in - axis->size) / 2;
}

// Pads both sides equally until the image has these proportions.
void AddAround(ResampleAxis& height, ResampleAxis& width) {
  const auto around = [](const ResampleAxis& axis, const ResampleAxis& other) {
    return std::max<int64_t>(other.in * axis.out / other.out - axis.in, 0) / 2;
  };
  height.begin = -around(height, width);
  width.begin = -around(width, height);
  for (ResampleAxis* axis : {&height, &width}) axis->size = axis->in - 2 * axis->begin;
}

// Resizing, CenterCrop and RandomCrop: layers with a fixed output size.
class SizeLayer : public ImageLayer {
 public:
  explicit SizeLayer(LayerConfig& config)
      : ImageLayer(config),
        height_(config.RequiredInteger("height", 1)),
        width_(config.RequiredInteger("width", 1)),
        keras2_(config.keras2()) {
    if (class_name() != "Resizing") return;
    bilinear_ = config.Choice("interpolation", "bilinear", {"bilinear", "nearest"}) == "bilinear";
    if (config.Flag("antialias", false)) {
      config.Fail("antialias", "true is not supported; supported: false");
    }
    crops_ = config.Flag("crop_to_aspect_ratio", false);
    pads_ = config.Flag("pad_to_aspect_ratio", false);
    if (crops_ && pads_) config.Fail("pad_to_aspect_ratio", "is for images that are not cropped");
    config.Choice("fill_mode", "constant", {"constant"});
    fill_value_ = config.Number("fill_value", 0);
  }

 private:
  Shape SizeFor(const Shape& in) const override { return {height_, width_, in[2]}; }
  void Plan(bool training, ImageStep& step) const override {
    step.kind = ImageStep::Kind::kResize;
    step.shape.bilinear = bilinear_;
    step.shape.fill_value = static_cast<float>(fill_value_);
    ResampleAxis &height = step.shape.height, &width = step.shape.width;
    if (class_name() == "Resizing") {
      if (crops_) TakeMiddle(height, width);
      if (pads_) AddAround(height, width);
    } else if (class_name() == "CenterCrop") {
      TakeMiddle(height, width);
      if (height.in < height.out || width.in < width.out) return;
      for (ResampleAxis* axis : {&height, &width}) {
        axis->begin = (axis->in - axis->out) / 2;
        axis->size = axis->out;
      }
    } else {
      TakeMiddle(height, width);
      if (training) PlanCrop(step);
    }
  }
  // Crops a whole batch at one place. For a too small image, Keras 3 starts in the middle but takes
  // all rows or columns.
  void PlanCrop(ImageStep& step) const {
    ResampleAxis &height = step.shape.height, &width = step.shape.width;
    const int64_t least = keras2_ ? 0 : 1;
    if (height.in - height.out < least || width.in - width.out < least) {
      if (keras2_) return;
      for (ResampleAxis* axis : {&height, &width}) {
        axis->size = std::min(axis->out, axis->in - axis->begin);
      }
      return;
    }
    step.kind = ImageStep::Kind::kMap;
    step.shape.bilinear = false;
    step.map.kind = MapKind::kShift;
    step.map.together = true;
    step.map.high[0] = static_cast<float>(height.in - height.out + 1);
    step.map.high[1] = static_cast<float>(width.in - width.out + 1);
  }

  const int64_t height_, width_;
  const bool keras2_;
  bool bilinear_ = true, crops_ = false, pads_ = false;
  double fill_value_ = 0;
};

// RandomFlip, RandomTranslation, RandomRotation, RandomZoom.
class MapLayer : public ImageLayer {
 public:
  explicit MapLayer(LayerConfig& config) : ImageLayer(config) {
    if (class_name() == "RandomFlip") {
      ReadFlip(config);
    } else {
      ReadMap(config);
    }
  }

 private:
  void ReadMap(LayerConfig& config) {
    if (class_name() == "RandomRotation") {
      map_.kind = MapKind::kRotate;
      const auto [low, high] = ReadRange(config, "factor", -HUGE_VAL);
      SetRange(0, 360 * low, 360 * high);
    } else {
      const bool zoom = class_name() == "RandomZoom";
      map_.kind = zoom ? MapKind::kZoom : MapKind::kTranslate;
      map_.alike = zoom && !config.Has("width_factor");
      config.Ignore("width_factor");
      const double middle = zoom ? 1 : 0;
      for (int i = 0; i < 2; ++i) {
        const bool rows = i == 0 || map_.alike;
        const auto [low, high] = ReadRange(config, rows ? "height_factor" : "width_factor", -1);
        SetRange(i, middle + low, middle + high);
      }
    }
    const std::string mode =
        config.Choice("fill_mode", "reflect", {"constant", "reflect", "wrap", "nearest"});
    fill_ = mode == "constant"  ? FillMode::kConstant
            : mode == "reflect" ? FillMode::kReflect
            : mode == "wrap"    ? FillMode::kWrap
                                : FillMode::kNearest;
    fill_value_ = config.Number("fill_value", 0);
    bilinear_ = config.Choice("interpolation", "bilinear", {"bilinear", "nearest"}) == "bilinear";
  }
  void ReadFlip(LayerConfig& config) {
    const std::string mode = config.Choice("mode", "horizontal_and_vertical",
                                           {"horizontal", "vertical", "horizontal_and_vertical"});
    map_.kind = MapKind::kFlip;
    map_.alike = !config.keras2();  // Keras 2 draws the two flips separately
    bilinear_ = false;
    if (mode == "horizontal") SetRange(0, 1, 1);  // never flips rows
    if (mode == "vertical") SetRange(1, 1, 1);
  }
  void SetRange(int axis, double low, double high) {
    map_.low[axis] = static_cast<float>(low);
    map_.high[axis] = static_cast<float>(high);
  }
  void Plan(bool training, ImageStep& step) const override {
    if (!training) return;
    RandomMap map = map_;
    map.height = step.map.height;
    map.width = step.map.width;
    step.kind = ImageStep::Kind::kMap;
    step.map = map;
    step.shape.bilinear = bilinear_;
    step.shape.fill = fill_;
    step.shape.fill_value = static_cast<float>(fill_value_);
  }

  RandomMap map_;
  FillMode fill_ = FillMode::kNearest;
  bool bilinear_ = true;
  double fill_value_ = 0;
};

}  // namespace

absl::Status CheckImage(const Shape& shape) {
  const bool empty = Elements(shape) == 0;
  if (shape.size() == 3 && !empty) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("needs images (height, width, channels), not ", ShapeName(shape)));
}

std::pair<double, double> ReadPair(LayerConfig& config, const char* key) {
  const nlohmann::json* value = config.Value(key);
  const bool good =
      value->is_array() && value->size() == 2 && (*value)[0].is_number() && (*value)[1].is_number();
  if (!good) {
    config.Fail(key, absl::StrCat("must be two numbers, not ", Shown(*value)));
    return {0, 0};
  }
  const std::pair<double, double> pair{(*value)[0].get<double>(), (*value)[1].get<double>()};
  if (!std::isfinite(pair.first) || !std::isfinite(pair.second)) config.Fail(key, "is not finite");
  return pair;
}

std::pair<double, double> ReadRange(LayerConfig& config, const char* key, double least) {
  const nlohmann::json* value = config.Value(key);
  if (value == nullptr) {
    config.Fail(key, "is missing");
    return {0, 0};
  }
  std::pair<double, double> range;
  if (value->is_array()) {
    range = ReadPair(config, key);
    if (range.first > range.second) std::swap(range.first, range.second);
  } else {
    range.second = std::abs(config.Number(key, 0));
    range.first = -range.second;
  }
  if (std::isfinite(least) && (range.first < least || range.second > -least)) {
    config.Fail(key, absl::StrCat("must lie between ", least, " and ", -least));
  }
  return range;
}

std::unique_ptr<Layer> MakeImageMap(LayerConfig& config) {
  return std::make_unique<MapLayer>(config);
}

std::unique_ptr<Layer> MakeImageSize(LayerConfig& config) {
  return std::make_unique<SizeLayer>(config);
}

}  // namespace paracord
