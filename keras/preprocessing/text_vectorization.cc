// TextVectorization splits a text into tokens, numbered by a StringLookup. Cuts the numbers, or
// pads them with 0, to a fixed length.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "data/text_tokens.h"
#include "keras/preprocessing/step.h"

namespace paracord {
namespace {

constexpr char kLength[] = "output_sequence_length";

class TextVectorizationStep : public PreprocessingStep {
 public:
  explicit TextVectorizationStep(LayerConfig& config)
      : PreprocessingStep(config), lookup_(MakeTokenLookup(config)) {
    const std::string standardize =
        ChoiceOrNone(config, "standardize", "lower_and_strip_punctuation",
                     {"lower_and_strip_punctuation", "lower", "strip_punctuation"});
    lower_ = standardize.starts_with("lower");
    strip_ = standardize.ends_with("strip_punctuation");
    const std::string split =
        ChoiceOrNone(config, "split", "whitespace", {"whitespace", "character"});
    if (split.empty()) config.Fail("split", "must be \"whitespace\" or \"character\"");
    tokenizer_.words = split == "whitespace";
    ReadNgrams(config);
    const nlohmann::json* mode = config.Value("output_mode");
    numbers_tokens_ = mode == nullptr || *mode == "int";
    length_ = config.Integer(kLength, 0, 1);
    if (numbers_tokens_ && length_ == 0) {
      config.Fail(kLength, "must be given: examples are of one shape, whatever their texts are");
    }
    if (config.Flag("ragged", false)) config.Fail("ragged", "is not supported");
  }

  absl::StatusOr<RawType> OutputType(std::span<const RawType> inputs) const override {
    RETURN_IF_ERROR(CheckInputs(inputs));
    // The number of tokens depends on the batch's texts; the length is an example.
    const RawType tokens{.kind = RawKind::kString, .shape = {std::max<int64_t>(length_, 1)}};
    return lookup_->OutputType({&tokens, 1});
  }

  absl::Status Run(std::span<const RawView> inputs, size_t examples, const RawPlace& place,
                   RawValues& out) const override {
    const std::span<const std::string> texts = inputs[0].strings;
    std::vector<std::vector<std::string>> cut(texts.size());
    size_t length = numbers_tokens_ ? static_cast<size_t>(length_) : 1;
    for (size_t i = 0; i < texts.size(); ++i) {
      const absl::Status status = Cut(texts[i], cut[i]);
      if (!status.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(place(i, texts.size()), ": ", status.message()));
      }
      if (!numbers_tokens_) length = std::max(length, cut[i].size());
    }
    std::vector<std::string> tokens(texts.size() * length);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto count = static_cast<std::ptrdiff_t>(std::min(length, cut[i].size()));
      std::move(cut[i].begin(), cut[i].begin() + count,
                tokens.begin() + static_cast<std::ptrdiff_t>(i * length));
    }
    const RawView view{.kind = RawKind::kString, .floats = {}, .integers = {}, .strings = tokens};
    return lookup_->Run(
        {&view, 1}, examples,
        [&](size_t token, size_t) { return place(token / length, texts.size()); }, out);
  }

  void CountUnknown(const RawView& input, LookupCount& count) const override {
    std::vector<std::string> tokens;
    for (const std::string& text : input.strings) {
      if (!Cut(text, tokens).ok()) continue;
      const RawView view{.kind = RawKind::kString, .floats = {}, .integers = {}, .strings = tokens};
      lookup_->CountUnknown(view, count);
      tokens.clear();
    }
  }

 protected:
  absl::Status CheckInputs(std::span<const RawType> inputs) const override {
    if (inputs.size() != 1 || inputs[0].kind != RawKind::kString) {
      return absl::InvalidArgumentError("takes strings");
    }
    if (Elements(inputs[0].shape) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("takes one text an example, not of shape ", ShapeName(inputs[0].shape)));
    }
    return absl::OkStatus();
  }
  absl::Status Indices(std::span<const RawView>, const RawPlace&,
                       std::vector<int64_t>&) const override {
    return absl::InternalError("the lookup has them");
  }

 private:
  static std::string ChoiceOrNone(LayerConfig& config, const char* key, const char* otherwise,
                                  std::vector<std::string_view> known) {
    if (config.Says(key) && !config.Has(key)) return "";
    return config.Choice(key, otherwise, std::move(known));
  }

  void ReadNgrams(LayerConfig& config) {
    const nlohmann::json* ngrams = config.Value("ngrams");
    if (ngrams == nullptr) return;
    if (ngrams->is_array()) {
      for (const int64_t width : config.Integers("ngrams")) widths_.push_back(width);
    } else {
      const int64_t most = config.Integer("ngrams", 1, 1);
      for (int64_t width = 1; width <= std::min<int64_t>(most, kWidthMax); ++width) {
        widths_.push_back(width);
      }
    }
    for (const int64_t width : widths_) {
      if (width < 1 || width > kWidthMax) config.Fail("ngrams", "must be small numbers above 0");
    }
  }

  absl::Status Cut(const std::string& text, std::vector<std::string>& tokens) const {
    std::string clean;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (strip_ && absl::ascii_ispunct(byte)) continue;
      clean.push_back(lower_ ? absl::ascii_tolower(byte) : c);
    }
    const Tokenizer::Consumed taken =
        tokenizer_.Take(clean, /*at_end=*/true, clean.size() + 1,
                        [&](std::string_view token) { tokens.emplace_back(token); });
    if (taken.bad) return absl::InvalidArgumentError("the text is not UTF-8");
    if (widths_.empty()) return absl::OkStatus();
    std::vector<std::string> grams;
    for (const int64_t width : widths_) {
      for (auto at = tokens.begin(); tokens.end() - at >= width; ++at) {
        grams.push_back(absl::StrJoin(at, at + width, " "));
      }
    }
    tokens = std::move(grams);
    return absl::OkStatus();
  }

  static constexpr int64_t kWidthMax = 100;
  const std::unique_ptr<PreprocessingStep> lookup_;
  Tokenizer tokenizer_;
  bool lower_ = true, strip_ = true;
  bool numbers_tokens_ = true;  // false: counts the tokens
  int64_t length_ = 0;
  std::vector<int64_t> widths_;  // widths of n-grams; empty: the tokens themselves
};

}  // namespace

std::unique_ptr<PreprocessingStep> MakeTextVectorization(LayerConfig& config) {
  return std::make_unique<TextVectorizationStep>(config);
}

}  // namespace paracord
