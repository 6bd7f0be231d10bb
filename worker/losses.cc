#include "worker/losses.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/unknown_name.h"

namespace paracord {
namespace {

struct NamedLoss {
  std::string_view name;
  LossKind kind;
};

constexpr std::array<NamedLoss, 7> kLosses{{
    {"sparse_categorical_crossentropy", LossKind::kSparseCategoricalCrossentropy},
    {"categorical_crossentropy", LossKind::kCategoricalCrossentropy},
    {"binary_crossentropy", LossKind::kBinaryCrossentropy},
    {"mean_squared_error", LossKind::kMeanSquaredError},
    {"mse", LossKind::kMeanSquaredError},
    {"mean_absolute_error", LossKind::kMeanAbsoluteError},
    {"mae", LossKind::kMeanAbsoluteError},
}};

constexpr std::array<std::string_view, 9> kMetrics{"accuracy",
                                                   "sparse_categorical_accuracy",
                                                   "categorical_accuracy",
                                                   "binary_accuracy",
                                                   "mean_squared_error",
                                                   "mse",
                                                   "mean_absolute_error",
                                                   "mae",
                                                   "acc"};

absl::Status Unknown(const std::string& what, const std::string& name,
                     std::span<const std::string_view> known) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " \"", name, "\"", NotSupported(name, known)));
}

// Options that Keras writes at the one value that we compute with.
bool IsDefault(const std::string& key, const nlohmann::json& value) {
  if (key == "reduction") return value == "sum_over_batch_size" || value == "auto";
  if (key == "axis") return value == -1;
  return value.is_null() || value == false || (key == "label_smoothing" && value == 0) ||
         key == "name" || key == "dtype";
}

absl::Status CheckOptions(const std::string& title, const NamedSpec& spec,
                          std::span<const std::string_view> known) {
  for (const auto& [key, value] : spec.options.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    if (!IsDefault(key, value)) return Unknown(absl::StrCat(title, ": option"), key, known);
  }
  return absl::OkStatus();
}

Shape WithoutLast(Shape shape) {
  if (!shape.empty()) shape.pop_back();
  return shape;
}

// Equal, but for a last axis of 1.
bool SameUpToOne(const Shape& a, const Shape& b) {
  return a == b || (!a.empty() && a.back() == 1 && WithoutLast(a) == b) ||
         (!b.empty() && b.back() == 1 && WithoutLast(b) == a);
}

absl::Status CheckTargets(const std::string& title, bool sparse, const Shape& output,
                          const Shape& targets) {
  const bool fits = sparse ? !output.empty() && SameUpToOne(WithoutLast(output), targets)
                           : SameUpToOne(output, targets);
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      title, ": the model's output has shape ", ShapeName(output), " and the data's targets have ",
      ShapeName(targets), "; it needs ",
      sparse ? "one class index for the classes of the last axis" : "targets like the output"));
}

struct RowsAndColumns {
  explicit RowsAndColumns(const Shape& output)
      : columns(output.empty() ? 1 : output.back()),
        rows(columns == 0 ? 0 : Elements(output) / columns) {}
  int64_t columns, rows;
};

// Keras decides by the shapes alone: keras/src/trainers/compile_utils.py.
MatchKind Accuracy(const Shape& output, const Shape& targets) {
  const int64_t classes = output.empty() ? 1 : output.back();
  if (classes == 1) return MatchKind::kBinary;
  const bool one_target = !targets.empty() && targets.back() == 1;
  if (targets.size() < output.size() || one_target) return MatchKind::kSparse;
  return MatchKind::kCategorical;
}

}  // namespace

int64_t LossSpec::targets() const {
  return kind == LossKind::kSparseCategoricalCrossentropy ? rows : rows * columns;
}

absl::StatusOr<LossSpec> ResolveLoss(const NamedSpec& spec, const Shape& output,
                                     const Shape& targets) {
  std::vector<std::string_view> known;
  for (const NamedLoss& loss : kLosses) {
    known.push_back(loss.name);
    if (loss.name != spec.name) continue;
    const std::string title = absl::StrCat("loss ", spec.name);
    LossSpec result;
    result.kind = loss.kind;
    const bool crossentropy = loss.kind == LossKind::kSparseCategoricalCrossentropy ||
                              loss.kind == LossKind::kCategoricalCrossentropy ||
                              loss.kind == LossKind::kBinaryCrossentropy;
    static constexpr std::string_view kFromLogits[] = {"from_logits"};
    RETURN_IF_ERROR(CheckOptions(title, spec, std::span(kFromLogits, crossentropy ? 1 : 0)));
    if (const auto logits = spec.options.find("from_logits"); logits != spec.options.end()) {
      if (!logits->is_boolean()) {
        return absl::InvalidArgumentError(title + ": from_logits must be true or false");
      }
      result.from_logits = logits->get<bool>();
    }
    RETURN_IF_ERROR(CheckTargets(title, IsSparse(result), output, targets));
    const RowsAndColumns size(output);
    result.rows = size.rows;
    result.columns = size.columns;
    return result;
  }
  return Unknown("loss", spec.name, known);
}

absl::StatusOr<MetricSpec> ResolveMetric(const NamedSpec& spec, const Shape& output,
                                         const Shape& targets) {
  if (std::find(kMetrics.begin(), kMetrics.end(), spec.name) == kMetrics.end()) {
    return Unknown("metric", spec.name, kMetrics);
  }
  const std::string title = absl::StrCat("metric ", spec.name);
  MetricSpec metric;
  metric.name = spec.name;
  metric.is_match = true;
  static constexpr std::string_view kThreshold[] = {"threshold"};
  const bool binary = spec.name == "binary_accuracy";
  RETURN_IF_ERROR(CheckOptions(title, spec, std::span(kThreshold, binary ? 1 : 0)));
  if (spec.name == "accuracy" || spec.name == "acc") {
    metric.match = Accuracy(output, targets);
  } else if (spec.name == "sparse_categorical_accuracy") {
    metric.match = MatchKind::kSparse;
  } else if (spec.name == "categorical_accuracy") {
    metric.match = MatchKind::kCategorical;
  } else if (binary) {
    metric.match = MatchKind::kBinary;
    const auto threshold = spec.options.find("threshold");
    if (threshold != spec.options.end()) {
      if (!threshold->is_number()) {
        return absl::InvalidArgumentError(title + ": threshold must be a number");
      }
      metric.threshold = threshold->get<float>();
    }
  } else {
    metric.is_match = false;
    metric.loss = spec.name == "mse" || spec.name == "mean_squared_error"
                      ? LossKind::kMeanSquaredError
                      : LossKind::kMeanAbsoluteError;
  }
  RETURN_IF_ERROR(CheckTargets(title, IsSparse(metric), output, targets));
  const RowsAndColumns size(output);
  metric.rows = size.rows;
  metric.columns = size.columns;
  return metric;
}

}  // namespace paracord
