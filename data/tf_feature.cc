#include "data/tf_feature.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/image.h"

namespace paracord {
namespace {

absl::Status Missing() {
  return absl::InvalidArgumentError("is missing, and there is no `default`");
}

// True for a SequenceExample's list without steps, and hence without a type.
bool IsEmpty(const ExampleFeature& feature) { return feature.kind == ExampleFeature::Kind::kNone; }

// Returns how many values are dropped in front of the kept ones, at most spec.size. An error if the
// list does not fit.
absl::StatusOr<size_t> LeftOut(const FeatureSpec& spec, size_t count) {
  if (count == spec.size) return size_t{0};
  const std::string has = absl::StrCat("has ", count, " values");
  if (count < spec.size) {
    if (!spec.pads()) {
      return absl::InvalidArgumentError(
          absl::StrCat(has, " instead of ", spec.size,
                       spec.shape.empty() ? "" : "; `pad` fills up lists of varying length"));
    }
    const size_t row = spec.size / static_cast<size_t>(spec.shape[0]);
    if (count % row == 0) return size_t{0};
    return absl::InvalidArgumentError(absl::StrCat(has, ", no multiple of ", row));
  }
  switch (spec.cut) {
    case FeatureSpec::Cut::kNone:
      if (!spec.pads()) {
        return absl::InvalidArgumentError(absl::StrCat(has, " instead of ", spec.size));
      }
      return absl::InvalidArgumentError(absl::StrCat(
          has, ", more than ", spec.size, "; give a larger `shape`, or `truncate` \"pre\" or ",
          "\"post\" to leave out the first or the last of a list"));
    case FeatureSpec::Cut::kEnd:
      return size_t{0};
    case FeatureSpec::Cut::kStart:
      return count - spec.size;
  }
  return size_t{0};
}

// Moves the kept values to `out`, pads the rest, and returns how many were dropped in front.
template <class T>
absl::StatusOr<size_t> Fit(const FeatureSpec& spec, std::vector<T>& values, const T& pad,
                           std::span<T> out) {
  ASSIGN_OR_RETURN(const size_t left_out, LeftOut(spec, values.size()));
  const size_t kept = std::min(values.size(), out.size());
  std::move(values.begin() + static_cast<std::ptrdiff_t>(left_out),
            values.begin() + static_cast<std::ptrdiff_t>(left_out + kept), out.begin());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(kept), out.end(), pad);
  return left_out;
}

// Writes a list of more or fewer numbers than `out` has room for.
absl::Status FitNumbers(const FeatureSpec& spec, std::vector<float> values,
                        std::vector<ExactInteger> large, std::span<float> out,
                        std::vector<ExactInteger>& exact) {
  const auto pad = static_cast<float>(spec.pad_value.value_or(0));
  ASSIGN_OR_RETURN(const size_t left_out, Fit(spec, values, pad, out));
  for (const ExactInteger& each : large) {
    if (each.element < left_out || each.element >= left_out + out.size()) continue;
    exact.push_back({spec.offset + each.element - left_out, each.value});
  }
  return absl::OkStatus();
}

absl::Status ReadList(const FeatureSpec& spec, const ExampleFeature& feature, std::span<float> out,
                      std::vector<ExactInteger>& exact) {
  const size_t before = exact.size();
  ASSIGN_OR_RETURN(const size_t count, ReadNumbers(feature, out, spec.offset, exact));
  if (count == out.size()) return absl::OkStatus();
  RETURN_IF_ERROR(LeftOut(spec, count).status());
  exact.resize(before);
  std::vector<float> values(count);
  std::vector<ExactInteger> large;
  RETURN_IF_ERROR(ReadNumbers(feature, values, 0, large).status());
  return FitNumbers(spec, std::move(values), std::move(large), out, exact);
}

absl::Status ReadRaw(const FeatureSpec& spec, const ExampleFeature& feature, std::span<float> out,
                     std::vector<ExactInteger>& exact) {
  ASSIGN_OR_RETURN(const std::string_view bytes, ReadBytes(feature));
  const size_t each = ElementSize(spec.element);
  if (bytes.size() % each != 0 ||
      (bytes.size() != out.size() * each && !spec.pads() && spec.cut == FeatureSpec::Cut::kNone)) {
    return absl::InvalidArgumentError(absl::StrCat("has ", bytes.size(), " bytes instead of ",
                                                   out.size() * each, ", which ", out.size(),
                                                   " values of ", spec.dtype, " take"));
  }
  if (spec.element == ElementType::kU8 && bytes.size() == out.size()) {
    std::ranges::transform(bytes, out.begin(), [](char byte) {
      return static_cast<float>(static_cast<unsigned char>(byte));
    });
    return absl::OkStatus();
  }
  std::vector<float> values;
  std::vector<ExactInteger> large;
  AppendElements(spec.element, bytes, spec.big_endian, values, large);
  return FitNumbers(spec, std::move(values), std::move(large), out, exact);
}

absl::Status ReadImage(const FeatureSpec& spec, const ExampleFeature& feature,
                       std::span<float> out) {
  ASSIGN_OR_RETURN(const std::string_view bytes, ReadBytes(feature));
  ASSIGN_OR_RETURN(const Image image, DecodeImage(bytes, static_cast<uint32_t>(spec.shape[2])));
  ResizeImage(image, static_cast<uint32_t>(spec.shape[0]), static_cast<uint32_t>(spec.shape[1]),
              static_cast<float>(spec.scale), out);
  return absl::OkStatus();
}

absl::Status ReadPlain(const FeatureSpec& spec, const ExampleFeature& feature, std::span<float> out,
                       std::vector<ExactInteger>& exact) {
  using Kind = ExampleFeature::Kind;
  if (spec.kind == FeatureSpec::Kind::kRaw) return ReadRaw(spec, feature, out, exact);
  if (spec.kind == FeatureSpec::Kind::kAny) return ReadList(spec, feature, out, exact);
  if (feature.kind == Kind::kBytes) return ReadRaw(spec, feature, out, exact);
  const Kind wanted = spec.kind == FeatureSpec::Kind::kFloat ? Kind::kFloat : Kind::kInt64;
  if (feature.kind == wanted) return ReadList(spec, feature, out, exact);
  return absl::InvalidArgumentError(absl::StrCat("is not of dtype ", spec.dtype));
}

// Marks which values of a list are present. The list's own spec reports errors.
absl::Status FillPresent(const FeatureSpec& spec, const ExampleFeature* feature,
                         std::span<float> out) {
  size_t count = 0;
  if (feature == nullptr) {
    count = spec.default_value || spec.default_text ? out.size() : 0;
  } else if (IsEmpty(*feature)) {
    count = 0;
  } else if (spec.text_list) {
    std::vector<std::string> texts;
    RETURN_IF_ERROR(ReadTexts(*feature, texts));
    count = texts.size();
  } else if (feature->kind == ExampleFeature::Kind::kBytes) {
    ASSIGN_OR_RETURN(const std::string_view bytes, ReadBytes(*feature));
    count = bytes.size() / ElementSize(spec.element);
  } else {
    std::vector<ExactInteger> ignored;
    ASSIGN_OR_RETURN(count, ReadNumbers(*feature, {}, 0, ignored));
  }
  const auto there = static_cast<std::ptrdiff_t>(std::min(count, out.size()));
  std::fill(out.begin(), out.begin() + there, 1.f);
  std::fill(out.begin() + there, out.end(), 0.f);
  return absl::OkStatus();
}

}  // namespace

absl::Status FillNumbers(const FeatureSpec& spec, const ExampleFeature* feature,
                         std::span<float> out, std::vector<ExactInteger>& exact) {
  if (spec.kind == FeatureSpec::Kind::kPresent) return FillPresent(spec, feature, out);
  const auto scale = static_cast<float>(spec.scale);
  if (feature == nullptr || IsEmpty(*feature)) {
    const bool is_default = feature == nullptr && spec.default_value.has_value();
    const std::optional<double>& value = is_default ? spec.default_value : spec.pad_value;
    if (!value) return Missing();
    std::ranges::fill(out, scale * static_cast<float>(*value));
    return absl::OkStatus();
  }
  if (spec.kind == FeatureSpec::Kind::kImage) return ReadImage(spec, *feature, out);
  const size_t before = exact.size();
  RETURN_IF_ERROR(ReadPlain(spec, *feature, out, exact));
  if (scale == 1) return absl::OkStatus();
  for (float& value : out) value *= scale;
  exact.resize(before);  // scaled numbers are no longer exact
  return absl::OkStatus();
}

absl::Status FillTexts(const FeatureSpec& spec, const ExampleFeature* feature,
                       std::span<std::string> out) {
  if (feature == nullptr || IsEmpty(*feature)) {
    const bool is_default = feature == nullptr && spec.default_text.has_value();
    const std::optional<std::string>& text = is_default ? spec.default_text : spec.pad_text;
    if (!text) return Missing();
    std::ranges::fill(out, *text);
    return absl::OkStatus();
  }
  std::vector<std::string> texts;
  RETURN_IF_ERROR(ReadTexts(*feature, texts));
  return Fit(spec, texts, spec.pad_text.value_or(""), out).status();
}

}  // namespace paracord
