// Hashing and HashedCrossing compute bins by TensorFlow's fingerprints. As in Keras, Hashing takes
// the fingerprint of an integer's decimal text, and HashedCrossing the integer itself.
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/fingerprint64.h"
#include "keras/preprocessing/step.h"
#include "keras/preprocessing/token_hash.h"

namespace paracord {
namespace {

class HashingStep : public PreprocessingStep {
 public:
  explicit HashingStep(LayerConfig& config) : PreprocessingStep(config) {
    ReadMode(config, "int", {"int", "one_hot", "multi_hot", "count"});
    encoding_.depth = config.RequiredInteger("num_bins", 1);
    hash_.ReadSalt(config);
    bins_ = static_cast<uint64_t>(encoding_.depth);
    const nlohmann::json* mask = config.Value("mask_value");
    if (mask == nullptr) return;
    if (mask->is_string()) {
      mask_text_ = mask->get<std::string>();
    } else if (mask->is_number_integer()) {
      mask_number_ = mask->get<int64_t>();
    } else {
      config.Fail("mask_value", "must be a string or a whole number");
    }
    if (bins_ > 1) {
      --bins_;  // bin 0 is the mask's
      shift_ = 1;
    }
  }

 protected:
  absl::Status CheckInputs(std::span<const RawType> inputs) const override {
    if (inputs.size() != 1) return absl::InvalidArgumentError("takes one input");
    const bool text = inputs[0].kind == RawKind::kString;
    if ((text && mask_number_) || (!text && mask_text_)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "key \"mask_value\": is ", text ? "a number" : "a string", ", the input is not"));
    }
    return absl::OkStatus();
  }
  absl::Status Indices(std::span<const RawView> inputs, const RawPlace& place,
                       std::vector<int64_t>& out) const override {
    const RawView& input = inputs[0];
    for (size_t i = 0; i < out.size(); ++i) {
      if (input.kind == RawKind::kString) {
        const bool masked = shift_ == 1 && mask_text_ && input.strings[i] == *mask_text_;
        out[i] = masked ? 0 : Bin(input.strings[i]);
        continue;
      }
      int64_t value = 0;
      bool masked = false;
      if (input.kind == RawKind::kInteger) {
        value = input.integers[i];
        masked = mask_number_ && value == *mask_number_;
      } else {
        const float number = input.floats[i];
        if (!TruncateToInteger(number, value)) {
          return absl::InvalidArgumentError(
              absl::StrCat(place(i, out.size()), ": ", number, " is no whole number"));
        }
        masked = mask_number_ && number == static_cast<float>(*mask_number_);
      }
      out[i] = shift_ == 1 && masked ? 0 : Bin(absl::StrCat(value));
    }
    return absl::OkStatus();
  }

 private:
  int64_t Bin(const std::string& text) const { return hash_.Bin(text, bins_) + shift_; }

  TokenHash hash_;
  uint64_t bins_ = 1;
  int64_t shift_ = 0;
  std::optional<std::string> mask_text_;
  std::optional<int64_t> mask_number_;
};

class HashedCrossingStep : public PreprocessingStep {
 public:
  explicit HashedCrossingStep(LayerConfig& config) : PreprocessingStep(config) {
    ReadMode(config, "int", {"int", "one_hot"});
    encoding_.depth = config.RequiredInteger("num_bins", 1);
  }

 protected:
  absl::Status CheckInputs(std::span<const RawType> inputs) const override {
    if (inputs.size() < 2) return absl::InvalidArgumentError("takes two inputs or more");
    for (const RawType& input : inputs) {
      if (input.kind == RawKind::kFloat) {
        return absl::InvalidArgumentError("takes strings and integers, but an input gives floats");
      }
      if (input.shape != inputs[0].shape || Elements(input.shape) != 1 || input.shape.size() > 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("takes inputs of one shape, () or (1,), not ", ShapeName(input.shape)));
      }
    }
    return absl::OkStatus();
  }
  absl::Status Indices(std::span<const RawView> inputs, const RawPlace&,
                       std::vector<int64_t>& out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      CrossFingerprint cross;
      for (const RawView& input : inputs) {
        cross.Add(input.kind == RawKind::kString ? Fingerprint64(input.strings[i])
                                                 : static_cast<uint64_t>(input.integers[i]));
      }
      out[i] = static_cast<int64_t>(cross.value() % static_cast<uint64_t>(encoding_.depth));
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<PreprocessingStep> MakeHashedCrossing(LayerConfig& config) {
  return std::make_unique<HashedCrossingStep>(config);
}
std::unique_ptr<PreprocessingStep> MakeHashing(LayerConfig& config) {
  return std::make_unique<HashingStep>(config);
}

}  // namespace paracord
