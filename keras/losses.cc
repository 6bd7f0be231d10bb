#include "keras/losses.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "config/unknown_name.h"

namespace paracord {
namespace {

struct NamedLoss {
  std::string_view name;
  LossKind kind;
};

constexpr NamedLoss kLosses[] = {
    {"sparse_categorical_crossentropy", LossKind::kSparseCategoricalCrossentropy},
    {"categorical_crossentropy", LossKind::kCategoricalCrossentropy},
    {"binary_crossentropy", LossKind::kBinaryCrossentropy},
    {"binary_focal_crossentropy", LossKind::kBinaryFocalCrossentropy},
    {"categorical_focal_crossentropy", LossKind::kCategoricalFocalCrossentropy},
    {"mean_squared_error", LossKind::kMeanSquaredError},
    {"mse", LossKind::kMeanSquaredError},
    {"mean_absolute_error", LossKind::kMeanAbsoluteError},
    {"mae", LossKind::kMeanAbsoluteError},
    {"mean_squared_logarithmic_error", LossKind::kMeanSquaredLogarithmicError},
    {"msle", LossKind::kMeanSquaredLogarithmicError},
    {"mean_absolute_percentage_error", LossKind::kMeanAbsolutePercentageError},
    {"mape", LossKind::kMeanAbsolutePercentageError},
    {"huber", LossKind::kHuber},
    {"log_cosh", LossKind::kLogCosh},
    {"hinge", LossKind::kHinge},
    {"squared_hinge", LossKind::kSquaredHinge},
    {"categorical_hinge", LossKind::kCategoricalHinge},
    {"kl_divergence", LossKind::kKlDivergence},
    {"poisson", LossKind::kPoisson},
    {"cosine_similarity", LossKind::kCosineSimilarity},
};

Shape WithoutLast(Shape shape) {
  if (!shape.empty()) shape.pop_back();
  return shape;
}

// Whether the shapes are equal, except for a last axis of 1.
bool SameUpToOne(const Shape& a, const Shape& b) {
  return a == b || (!a.empty() && a.back() == 1 && WithoutLast(a) == b) ||
         (!b.empty() && b.back() == 1 && WithoutLast(b) == a);
}

// Whether this is an option that Keras writes for every loss and metric, with the one value that we
// compute with.
bool IsDefault(const std::string& key, const nlohmann::json& value) {
  // Only a loss used as a metric comes here: ReadReduction reads a loss's own reduction.
  if (key == "reduction") return value == "sum_over_batch_size" || value == "auto";
  if (key == "axis") return value == -1;
  if (key == "dtype") return value.is_null() || value == "float32";
  return value.is_null() || key == "label" || key == "fn";
}

absl::Status ReadReduction(const std::string& title, const NamedSpec& spec, SpecOptions& options,
                           LossSpec& loss) {
  const auto given = spec.options.find("reduction");
  if (given == spec.options.end()) return absl::OkStatus();
  options.Text("reduction", "");
  loss.sum = *given == "sum";
  for (const char* known : {"sum_over_batch_size", "mean", "auto", "sum"}) {
    if (*given == known) return absl::OkStatus();
  }
  const bool none = given->is_null() || *given == "none";
  return absl::InvalidArgumentError(absl::StrCat(
      title, ": reduction ", TextOf(*given), " is not supported",
      none ? " (Keras would learn from the sum of the losses and show their mean)" : "",
      "; supported: sum_over_batch_size, mean, sum"));
}

}  // namespace

bool IsCrossentropy(LossKind kind) {
  return IsFocal(kind) || kind == LossKind::kSparseCategoricalCrossentropy ||
         kind == LossKind::kCategoricalCrossentropy || kind == LossKind::kBinaryCrossentropy;
}

const nlohmann::json* SpecOptions::Find(const std::string& key) {
  read_.push_back(key);
  const auto found = spec_.options.find(key);
  return found == spec_.options.end() || found->is_null() ? nullptr : &*found;
}

void SpecOptions::Fail(const std::string& key, const std::string& what) {
  if (error_.ok()) {
    error_ = absl::InvalidArgumentError(absl::StrCat(title_, ": ", key, " must be ", what));
  }
}

double SpecOptions::Number(const std::string& key, double fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
  Fail(key, "a number");
  return fallback;
}

double SpecOptions::OneNumber(const std::string& key, double fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_array() && value->size() == 1) value = &value->front();
  if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
  Fail(key, "one number: a metric has one value");
  return fallback;
}

std::vector<double> SpecOptions::Numbers(const std::string& key) {
  const nlohmann::json* value = Find(key);
  std::vector<double> numbers;
  if (value == nullptr) return numbers;
  for (const nlohmann::json& each : value->is_array() ? *value : nlohmann::json::array()) {
    if (each.is_number() && std::isfinite(each.get<double>())) numbers.push_back(each);
  }
  if (!value->is_array() || numbers.size() != value->size() || numbers.empty()) {
    Fail(key, "a list of numbers");
    numbers.clear();
  }
  return numbers;
}

bool SpecOptions::Flag(const std::string& key, bool fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fail(key, "true or false");
  return fallback;
}

std::string SpecOptions::Text(const std::string& key, const std::string& fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  Fail(key, "a word");
  return fallback;
}

absl::Status SpecOptions::Finish() {
  RETURN_IF_ERROR(error_);
  for (const auto& [key, value] : spec_.options.items()) {
    if (std::find(read_.begin(), read_.end(), key) != read_.end() || IsDefault(key, value))
      continue;
    const std::vector<std::string_view> known(read_.begin(), read_.end());
    return absl::InvalidArgumentError(
        absl::StrCat(title_, ": option \"", key, "\"", NotSupported(key, known)));
  }
  return absl::OkStatus();
}

absl::Status CheckTargetShape(const std::string& title, bool sparse, const Shape& output,
                              const Shape& targets) {
  const bool fits = sparse ? !output.empty() && SameUpToOne(WithoutLast(output), targets)
                           : SameUpToOne(output, targets);
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      title, ": the model's output has shape ", ShapeName(output), " and the data's targets have ",
      ShapeName(targets), "; it needs ",
      sparse ? "one class index for the classes of the last axis" : "targets like the output"));
}

void ReadCrossentropy(SpecOptions& options, LossSpec& loss) {
  loss.from_logits = options.Flag("from_logits", false);
  if (!IsSparse(loss)) {
    loss.label_smoothing = static_cast<float>(options.Number("label_smoothing", 0));
  }
  if (!IsFocal(loss.kind)) return;
  loss.alpha = static_cast<float>(options.Number("alpha", 0.25));
  loss.gamma = static_cast<float>(options.Number("gamma", 2));
  if (loss.kind == LossKind::kBinaryFocalCrossentropy) {
    loss.balanced = options.Flag("apply_class_balancing", false);
  }
}

int64_t LossSpec::targets() const { return IsSparse(kind) ? rows : rows * columns; }

const LossKind* FindLoss(std::string_view name) {
  for (const NamedLoss& loss : kLosses) {
    if (loss.name == name) return &loss.kind;
  }
  return nullptr;
}

std::vector<std::string_view> LossNames() {
  std::vector<std::string_view> names;
  for (const NamedLoss& loss : kLosses) names.push_back(loss.name);
  return names;
}

absl::StatusOr<LossSpec> ResolveLoss(const NamedSpec& spec, const Shape& output,
                                     const Shape& targets) {
  const LossKind* kind = FindLoss(spec.name);
  if (kind == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss \"", spec.name, "\"", NotSupported(spec.name, LossNames())));
  }
  const std::string title = absl::StrCat("loss ", spec.name);
  LossSpec result;
  result.kind = *kind;
  SpecOptions options(title, spec);
  if (IsCrossentropy(*kind)) ReadCrossentropy(options, result);
  if (IsSparse(*kind) && spec.options.contains("ignore_class") &&
      !spec.options["ignore_class"].is_null()) {
    result.ignore_class = static_cast<int64_t>(options.Number("ignore_class", 0));
  }
  if (*kind == LossKind::kHuber) result.delta = static_cast<float>(options.Number("delta", 1));
  RETURN_IF_ERROR(ReadReduction(title, spec, options, result));
  RETURN_IF_ERROR(options.Finish());
  RETURN_IF_ERROR(CheckTargetShape(title, IsSparse(result), output, targets));
  const RowsAndColumns size(output);
  result.rows = size.rows;
  result.columns = size.columns;
  return result;
}

}  // namespace paracord
