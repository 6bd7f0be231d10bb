// CategoryEncoding encodes the data's indices; Discretization computes indices of intervals.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "keras/preprocessing/step.h"

namespace paracord {
namespace {

absl::Status CheckOneNumber(std::span<const RawType> inputs) {
  if (inputs.size() != 1) {
    return absl::InvalidArgumentError("takes one input; count_weights are not supported");
  }
  if (inputs[0].kind == RawKind::kString) {
    return absl::InvalidArgumentError("takes numbers, but its input gives strings");
  }
  return absl::OkStatus();
}

class CategoryEncodingStep : public PreprocessingStep {
 public:
  explicit CategoryEncodingStep(LayerConfig& config) : PreprocessingStep(config) {
    ReadMode(config, "multi_hot", {"multi_hot", "one_hot", "count", "binary"});
    encoding_.depth = config.RequiredInteger("num_tokens", 1);
  }

 protected:
  absl::Status CheckInputs(std::span<const RawType> inputs) const override {
    return CheckOneNumber(inputs);
  }
  absl::Status Indices(std::span<const RawView> inputs, const RawPlace& place,
                       std::vector<int64_t>& out) const override {
    if (inputs[0].kind == RawKind::kInteger) {
      std::ranges::copy(inputs[0].integers, out.begin());
      return absl::OkStatus();
    }
    const std::span<const float> values = inputs[0].floats;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!TruncateToInteger(values[i], out[i])) {
        return absl::InvalidArgumentError(
            absl::StrCat(place(i, values.size()), ": ", values[i], " is no index"));
      }
    }
    return absl::OkStatus();
  }
};

// Interval i ends before boundary i, as in numpy.digitize; NaN is in the last interval.
class DiscretizationStep : public PreprocessingStep {
 public:
  explicit DiscretizationStep(LayerConfig& config) : PreprocessingStep(config) {
    ReadMode(config, "int", {"int", "one_hot", "multi_hot", "count"});
    config.Ignore("num_bins");  // used by adapt(), like the next key
    config.Ignore("epsilon");
    ReadBoundaries(config);
    encoding_.depth = static_cast<int64_t>(boundaries_.size()) + 1;
  }

 protected:
  absl::Status CheckInputs(std::span<const RawType> inputs) const override {
    return CheckOneNumber(inputs);
  }
  absl::Status Indices(std::span<const RawView> inputs, const RawPlace&,
                       std::vector<int64_t>& out) const override {
    const bool floats = inputs[0].kind == RawKind::kFloat;
    for (size_t i = 0; i < out.size(); ++i) {
      const float value = floats ? inputs[0].floats[i] : static_cast<float>(inputs[0].integers[i]);
      out[i] =
          std::upper_bound(boundaries_.begin(), boundaries_.end(), value) - boundaries_.begin();
    }
    return absl::OkStatus();
  }

 private:
  void ReadBoundaries(LayerConfig& config) {
    const nlohmann::json* list = config.Value("bin_boundaries");
    if (list == nullptr) {
      return config.Fail("bin_boundaries",
                         "is not in the model file: adapt() the layer, or give "
                         "it bin_boundaries");
    }
    if (!list->is_array()) return config.Fail("bin_boundaries", "must be a list of numbers");
    for (const nlohmann::json& boundary : *list) {
      if (!boundary.is_number()) return config.Fail("bin_boundaries", "must be a list of numbers");
      boundaries_.push_back(boundary.get<float>());
    }
    if (!std::is_sorted(boundaries_.begin(), boundaries_.end())) {
      config.Fail("bin_boundaries", "must ascend");
    }
  }

  std::vector<float> boundaries_;
};

}  // namespace

std::unique_ptr<PreprocessingStep> MakeCategoryEncoding(LayerConfig& config) {
  return std::make_unique<CategoryEncodingStep>(config);
}
std::unique_ptr<PreprocessingStep> MakeDiscretization(LayerConfig& config) {
  return std::make_unique<DiscretizationStep>(config);
}

}  // namespace paracord
