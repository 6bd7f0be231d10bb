#include "keras/preprocessing/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

struct StepEntry {
  std::string_view class_name;
  std::unique_ptr<PreprocessingStep> (*make)(LayerConfig&);
};
constexpr StepEntry kSteps[] = {
    {"CategoryEncoding", MakeCategoryEncoding},   {"Discretization", MakeDiscretization},
    {"HashedCrossing", MakeHashedCrossing},       {"Hashing", MakeHashing},
    {"IntegerLookup", MakeIntegerLookup},         {"StringLookup", MakeStringLookup},
    {"TextVectorization", MakeTextVectorization},
};

// Checks the key "dtype": the layer computes in integers or float32, according to its output.
absl::Status CheckDType(const LayerSpec& layer) {
  const auto dtype = layer.config.find("dtype");
  if (dtype == layer.config.end() || dtype->is_null()) return absl::OkStatus();
  nlohmann::json name = *dtype;
  if (name.is_object() && name.contains("config") && name["config"].is_object()) {
    name = name["config"].value("name", nlohmann::json());
  }
  for (const char* known : {"float32", "int32", "int64", "string"}) {
    if (name == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(LayerTitle(layer.class_name, layer.name), ": key \"dtype\": ", TextOf(name),
                   " is not supported; supported: \"float32\", \"int32\", \"int64\""));
}

}  // namespace

void PreprocessingStep::ReadMode(LayerConfig& config, const char* otherwise,
                                 std::vector<std::string_view> modes) {
  using Mode = IndexEncoding::Mode;
  static constexpr std::pair<std::string_view, Mode> kModes[] = {
      {"int", Mode::kInt},         {"one_hot", Mode::kOneHot}, {"multi_hot", Mode::kMultiHot},
      {"binary", Mode::kMultiHot},  // Keras' former name
      {"count", Mode::kCount},     {"tf_idf", Mode::kTfIdf},   {"tf-idf", Mode::kTfIdf},
  };
  const std::string name = config.Choice("output_mode", otherwise, std::move(modes));
  for (const auto& [known, mode] : kModes) {
    if (known == name) encoding_.mode = mode;
  }
  config.Ignore("sparse");  // the numbers do not change
}

absl::StatusOr<RawType> PreprocessingStep::OutputType(std::span<const RawType> inputs) const {
  RETURN_IF_ERROR(CheckInputs(inputs));
  RawType type{.kind = RawKind::kFloat, .shape = inputs[0].shape};
  switch (encoding_.mode) {
    case IndexEncoding::Mode::kInt:
      type.kind = RawKind::kInteger;
      type.below = encoding_.depth;
      return type;
    case IndexEncoding::Mode::kOneHot:
      if (!type.shape.empty() && type.shape.back() == 1) type.shape.pop_back();
      break;
    default:
      if (type.shape.size() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("key \"output_mode\": is for examples of one axis, not of shape ",
                         ShapeName(type.shape)));
      }
      type.shape.pop_back();
  }
  type.shape.push_back(encoding_.depth);
  RETURN_IF_ERROR(CheckElements(type.shape));
  return type;
}

absl::Status PreprocessingStep::Run(std::span<const RawView> inputs, size_t examples,
                                    const RawPlace& place, RawValues& out) const {
  out.integers.resize(inputs[0].size());
  RETURN_IF_ERROR(Indices(inputs, place, out.integers));
  if (encoding_.mode == IndexEncoding::Mode::kInt) return absl::OkStatus();
  return Encode(out.integers, examples, place, out.floats);
}

absl::Status PreprocessingStep::Encode(std::span<const int64_t> indices, size_t examples,
                                       const RawPlace& place, std::vector<float>& out) const {
  const auto depth = static_cast<size_t>(encoding_.depth);
  const bool one_hot = encoding_.mode == IndexEncoding::Mode::kOneHot;
  const bool counts = encoding_.mode == IndexEncoding::Mode::kCount ||
                      encoding_.mode == IndexEncoding::Mode::kTfIdf;
  const size_t each = one_hot ? 1 : indices.size() / examples;  // indices of a row
  out.assign(indices.size() / each * depth, 0.0f);
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = indices[i];
    if (index < 0 && !one_hot) {
      return absl::InvalidArgumentError(
          absl::StrCat(place(i, indices.size()), ": index ", index, " is negative"));
    }
    if (index < 0 || index >= encoding_.depth) continue;
    float& at = out[i / each * depth + static_cast<size_t>(index)];
    at = counts ? at + 1 : 1;
  }
  if (encoding_.mode != IndexEncoding::Mode::kTfIdf) return absl::OkStatus();
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] *= i % depth < encoding_.weights.size() ? encoding_.weights[i % depth] : 0;
  }
  return absl::OkStatus();
}

bool TruncateToInteger(float value, int64_t& out) {
  constexpr float kMax = 9e18f;
  if (!(value > -kMax && value < kMax)) return false;
  out = static_cast<int64_t>(value);
  return true;
}

std::span<const std::string_view> PreprocessingLayerNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const StepEntry& entry : kSteps) all.push_back(entry.class_name);
    return all;
  }();
  return names;
}

bool IsPreprocessingLayer(std::string_view class_name) {
  return std::ranges::any_of(kSteps,
                             [&](const StepEntry& e) { return e.class_name == class_name; });
}

absl::StatusOr<std::unique_ptr<PreprocessingStep>> MakePreprocessingStep(const LayerSpec& layer,
                                                                         bool keras2) {
  RETURN_IF_ERROR(CheckDType(layer));
  nlohmann::json json = layer.config;
  json.erase("dtype");
  LayerConfig config(layer.class_name, layer.name, json, keras2);
  for (const StepEntry& entry : kSteps) {
    if (entry.class_name != layer.class_name) continue;
    std::unique_ptr<PreprocessingStep> step = entry.make(config);
    RETURN_IF_ERROR(config.Finish());
    return step;
  }
  return absl::InternalError(absl::StrCat(layer.class_name, " is no preprocessing layer"));
}

}  // namespace paracord
