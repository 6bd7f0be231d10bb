#include "data/transform.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/counter_random.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "data/image.h"

namespace paracord {
namespace {

using nlohmann::json;

// The rows, columns and channels of an input; an input without a channel axis has one channel.
struct Extent {
  uint64_t height = 1, width = 1, channels = 1;
  uint64_t size() const { return height * width * channels; }
};

// A step bound to inputs of a fixed extent.
struct BoundStep {
  TransformStep step;
  Extent from, to;
};

// The key of a record's random numbers, or none where nothing is random.
struct Chance {
  bool training = false;
  uint64_t key = 0;
  // Draws a number below `n`.
  uint64_t Draw(uint64_t counter, uint64_t n) const {
    return static_cast<uint64_t>(RandomUniform(key, counter) * static_cast<double>(n));
  }
};

void Crop(const BoundStep& bound, uint64_t number, const Chance& chance, const float* in,
          float* out) {
  const Extent &from = bound.from, &to = bound.to;
  const uint64_t rows = from.height + 2 * bound.step.pad - to.height;
  const uint64_t columns = from.width + 2 * bound.step.pad - to.width;
  const uint64_t top = chance.training ? chance.Draw(2 * number, rows + 1) : rows / 2;
  const uint64_t left = chance.training ? chance.Draw(2 * number + 1, columns + 1) : columns / 2;
  for (uint64_t y = 0; y < to.height; ++y) {
    for (uint64_t x = 0; x < to.width; ++x, out += to.channels) {
      // Rows and columns in the top and left padding wrap around to numbers beyond the last.
      const uint64_t row = top + y - bound.step.pad, column = left + x - bound.step.pad;
      if (row < from.height && column < from.width) {
        std::copy_n(in + (row * from.width + column) * from.channels, from.channels, out);
      } else {
        std::fill_n(out, to.channels, 0.f);
      }
    }
  }
}

void Flip(const BoundStep& bound, uint64_t number, const Chance& chance, const float* in,
          float* out) {
  const Extent& extent = bound.to;
  const bool turned = chance.training && chance.Draw(2 * number, 2) == 1;
  const bool rows = turned && bound.step.vertical, columns = turned && !bound.step.vertical;
  for (uint64_t y = 0; y < extent.height; ++y) {
    const uint64_t row = rows ? extent.height - 1 - y : y;
    for (uint64_t x = 0; x < extent.width; ++x, out += extent.channels) {
      const uint64_t column = columns ? extent.width - 1 - x : x;
      std::copy_n(in + (row * extent.width + column) * extent.channels, extent.channels, out);
    }
  }
}

void Normalise(const BoundStep& bound, const float* in, float* out) {
  const std::vector<float>&mean = bound.step.mean, &std = bound.step.std;
  for (uint64_t i = 0; i < bound.to.size(); ++i) {
    out[i] = (in[i] - mean[i % mean.size()]) / std[i % std.size()];
  }
}

class TransformedSource : public DataSource {
 public:
  TransformedSource(std::unique_ptr<DataSource> source, std::vector<BoundStep> steps,
                    std::vector<uint64_t> shape)
      : source_(std::move(source)), steps_(std::move(steps)), schema_(source_->schema()) {
    schema_.inputs[0].shape = std::move(shape);
  }

  uint64_t records() const override { return source_->records(); }
  std::string fingerprint() const override { return source_->fingerprint(); }
  const Batch& schema() const override { return schema_; }
  std::string Where(uint64_t record) const override { return source_->Where(record); }
  std::string Describe() const override { return source_->Describe(); }
  std::vector<std::string> Warnings() const override { return source_->Warnings(); }
  absl::StatusOr<std::vector<std::string>> Fields(
      std::span<const uint64_t> records, std::span<const std::string> names) const override {
    return source_->Fields(records, names);
  }

  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    RETURN_IF_ERROR(source_->Read(records, batch));
    Apply(records, Chance{}, batch);
    return absl::OkStatus();
  }
  absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t epoch_key,
                               Batch& batch) const override {
    RETURN_IF_ERROR(source_->ReadForTraining(records, epoch_key, batch));
    Apply(records, Chance{true, epoch_key}, batch);
    return absl::OkStatus();
  }

 private:
  void Apply(std::span<const uint64_t> records, Chance chance, Batch& batch) const {
    const uint64_t epoch_key = chance.key;
    Column& column = batch.inputs[0];
    column.exact.clear();
    std::vector<float> to;
    for (size_t number = 0; number < steps_.size(); ++number) {
      const BoundStep& bound = steps_[number];
      to.resize(records.size() * bound.to.size());
      for (size_t i = 0; i < records.size(); ++i) {
        chance.key = Mix64(epoch_key, records[i]);
        const float* in = column.values.data() + i * bound.from.size();
        float* out = to.data() + i * bound.to.size();
        switch (bound.step.kind) {
          case TransformStep::Kind::kCrop:
            Crop(bound, number, chance, in, out);
            break;
          case TransformStep::Kind::kFlip:
            Flip(bound, number, chance, in, out);
            break;
          case TransformStep::Kind::kNormalise:
            Normalise(bound, in, out);
        }
      }
      std::swap(column.values, to);
    }
    column.shape = schema_.inputs[0].shape;
    batch.source = this;
  }

  const std::unique_ptr<DataSource> source_;
  const std::vector<BoundStep> steps_;
  Batch schema_;
};

// Reads a number, or a list of numbers.
std::vector<float> ReadNumbers(JsonFields& fields, const std::string& key, double low, float none) {
  const json* value = fields.FindValue(key);
  if (value == nullptr) return {none};
  std::vector<float> numbers;
  const auto add = [&](const json& number) {
    if (!number.is_number() || !(number.get<double>() > low) ||
        !std::isfinite(number.get<float>())) {
      return fields.Problem(
          key, absl::StrCat("must be numbers above ", low, ", is ", JsonExcerpt(*value)));
    }
    numbers.push_back(number.get<float>());
  };
  if (value->is_array()) {
    for (const json& number : *value) add(number);
  } else {
    add(*value);
  }
  if (numbers.empty()) numbers.push_back(none);
  return numbers;
}

TransformStep ReadStep(const json& value, const std::string& path, Problems& problems) {
  TransformStep step;
  step.path = path;
  JsonFields fields(value, path, problems);
  const json* crop = fields.FindValue("crop");
  const json* flip = fields.FindValue("flip");
  const json* normalise = fields.FindValue("normalise");
  if (!value.is_object()) return step;
  if ((crop != nullptr) + (flip != nullptr) + (normalise != nullptr) != 1) {
    problems.Add(path, "needs one of `crop`, `flip`, `normalise`");
  } else if (crop != nullptr) {
    step.kind = TransformStep::Kind::kCrop;
    const auto is_side = [](const json& side) {
      return side.is_number_unsigned() && side.get<uint64_t>() > 0 &&
             side.get<uint64_t>() <= kImageSideMax;
    };
    if (crop->is_array() && crop->size() == 2 && is_side((*crop)[0]) && is_side((*crop)[1])) {
      step.height = (*crop)[0].get<uint64_t>();
      step.width = (*crop)[1].get<uint64_t>();
    } else {
      fields.Problem("crop", absl::StrCat("must be [height, width], is ", JsonExcerpt(*crop)));
    }
    fields.Integer("pad", 0, kImageSideMax, step.pad);
  } else if (flip != nullptr) {
    step.kind = TransformStep::Kind::kFlip;
    static constexpr std::string_view kWays[] = {"horizontal", "vertical"};
    std::string way;
    fields.OneOf("flip", kWays, way);
    step.vertical = way == "vertical";
  } else {
    JsonFields options(*normalise, fields.PathOf("normalise"), problems);
    step.mean = ReadNumbers(options, "mean", -1e30, 0);
    step.std = ReadNumbers(options, "std", 0, 1);
    options.ReportUnknown();
  }
  fields.ReportUnknown();
  return step;
}

// Binds a step to the extent of its input. An error if the step does not fit.
absl::StatusOr<BoundStep> Bind(const TransformStep& step, const Extent& from, bool is_image) {
  BoundStep bound{step, from, from};
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(step.path, ": ", what));
  };
  if (step.kind == TransformStep::Kind::kNormalise) {
    for (const size_t count : {step.mean.size(), step.std.size()}) {
      if (count == 1 || count == from.channels) continue;
      return bad(absl::StrCat("has ", count, " numbers for ", from.channels, " channels"));
    }
    return bound;
  }
  if (!is_image) return bad("needs an input of shape (height, width) or (height, width, channels)");
  if (step.kind == TransformStep::Kind::kCrop) {
    if (step.height > from.height + 2 * step.pad || step.width > from.width + 2 * step.pad) {
      return bad(
          absl::StrCat("the crop is larger than the image of ", from.height, " x ", from.width));
    }
    bound.to.height = step.height;
    bound.to.width = step.width;
  }
  return bound;
}

}  // namespace

std::vector<TransformStep> ReadTransform(const json& value, const std::string& path,
                                         Problems& problems) {
  std::vector<TransformStep> steps;
  if (!value.is_array()) {
    problems.Add(path, absl::StrCat("must be a list of steps, is ", JsonExcerpt(value)));
    return steps;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    steps.push_back(ReadStep(value[i], absl::StrCat(path, "[", i, "]"), problems));
  }
  return steps;
}

absl::StatusOr<std::unique_ptr<DataSource>> MakeTransformed(std::unique_ptr<DataSource> source,
                                                            std::vector<TransformStep> steps) {
  const std::vector<Column>& inputs = source->schema().inputs;
  if (inputs.size() != 1 || inputs[0].text) {
    return absl::InvalidArgumentError(
        absl::StrCat("transform: needs data of one input of numbers, not of ", inputs.size(),
                     inputs[0].text ? " of strings" : ""));
  }
  std::vector<uint64_t> shape = inputs[0].shape;
  const bool is_image = shape.size() == 2 || shape.size() == 3;
  Extent extent;
  if (is_image) {
    extent = {shape[0], shape[1], shape.size() == 3 ? shape[2] : 1};
  } else {
    for (const uint64_t dim : shape) extent.width *= dim;
    if (!shape.empty()) {
      extent.channels = shape.back();
      extent.width /= extent.channels;
    }
  }
  std::vector<BoundStep> bound;
  for (const TransformStep& step : steps) {
    ASSIGN_OR_RETURN(BoundStep next, Bind(step, extent, is_image));
    extent = next.to;
    bound.push_back(std::move(next));
  }
  if (is_image) {
    shape[0] = extent.height;
    shape[1] = extent.width;
  }
  return std::make_unique<TransformedSource>(std::move(source), std::move(bound), std::move(shape));
}

}  // namespace paracord
