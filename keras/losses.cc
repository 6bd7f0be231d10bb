#include "keras/losses.h"

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

constexpr double kClassMax = 1e15;  // exact in a double

Shape WithoutLast(Shape shape) {
  if (!shape.empty()) shape.pop_back();
  return shape;
}

// Whether the shapes are equal, except for a last axis of 1.
bool SameUpToOne(const Shape& a, const Shape& b) {
  return a == b || (!a.empty() && a.back() == 1 && WithoutLast(a) == b) ||
         (!b.empty() && b.back() == 1 && WithoutLast(b) == a);
}

// Whether an option has the value that Keras writes for every loss and metric, the only supported
// one.
bool IsDefault(const std::string& key, const nlohmann::json& value) {
  // Only for a loss used as a metric: ReadReduction reads a loss's own reduction.
  if (key == "reduction") return value == "sum_over_batch_size" || value == "auto";
  if (key == "axis") return value == -1;
  if (key == "dtype") return value.is_null() || value == "float32";
  return value.is_null() || key == "label" || key == "fn";
}

void ReadReduction(const NamedSpec& spec, JsonFields& options, LossSpec& loss) {
  options.Find("reduction");
  const auto given = spec.options.find("reduction");
  if (given == spec.options.end()) return;
  loss.sum = *given == "sum";
  for (const char* known : {"sum_over_batch_size", "mean", "auto", "sum"}) {
    if (*given == known) return;
  }
  const bool none = given->is_null() || *given == "none";
  options.Problem(
      "reduction",
      absl::StrCat(
          TextOf(*given), " is not supported",
          none ? " (Keras would learn from the sum of the losses and show their mean)" : "",
          "; supported: sum_over_batch_size, mean, sum"));
}

}  // namespace

bool IsCrossentropy(LossKind kind) {
  return IsFocal(kind) || kind == LossKind::kSparseCategoricalCrossentropy ||
         kind == LossKind::kCategoricalCrossentropy || kind == LossKind::kBinaryCrossentropy;
}

void ReportUnknownOptions(const NamedSpec& spec, JsonFields& options) {
  for (const auto& [key, value] : spec.options.items()) {
    if (IsDefault(key, value)) options.Find(key);
  }
  options.ReportUnknown();
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

void ReadCrossentropy(JsonFields& options, LossSpec& loss) {
  options.Bool("from_logits", loss.from_logits);
  if (!IsSparse(loss)) {
    options.Number("label_smoothing", -kAnyNumber, kAnyNumber, loss.label_smoothing);
  }
  if (!IsFocal(loss.kind)) return;
  options.Number("alpha", -kAnyNumber, kAnyNumber, loss.alpha);
  options.Number("gamma", -kAnyNumber, kAnyNumber, loss.gamma);
  if (loss.kind == LossKind::kBinaryFocalCrossentropy) {
    options.Bool("apply_class_balancing", loss.balanced);
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
  Problems problems;
  JsonFields options(spec.options, title, problems, JsonFields::Null::kAbsent);
  if (IsCrossentropy(*kind)) ReadCrossentropy(options, result);
  if (IsSparse(*kind) && options.Find("ignore_class") != nullptr) {
    double ignored = 0;
    options.Number("ignore_class", -kClassMax, kClassMax, ignored);
    result.ignore_class = static_cast<int64_t>(ignored);
  }
  if (*kind == LossKind::kHuber) options.Number("delta", -kAnyNumber, kAnyNumber, result.delta);
  ReadReduction(spec, options, result);
  ReportUnknownOptions(spec, options);
  RETURN_IF_ERROR(problems.ToStatus());
  RETURN_IF_ERROR(CheckTargetShape(title, IsSparse(result), output, targets));
  const RowsAndColumns size(output);
  result.rows = size.rows;
  result.columns = size.columns;
  return result;
}

}  // namespace paracord
