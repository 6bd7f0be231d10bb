#include "keras/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/unknown_name.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

using nlohmann::json;
using Kind = MetricSpec::Kind;

constexpr double kLeastOfTopK = -1e10;  // Keras' threshold of top_k

struct NamedMetric {
  std::string_view name;
  Kind kind;
  MetricKind state;
};

// Every loss is a metric, too, under its name.
constexpr NamedMetric kMetrics[] = {
    {"sparse_categorical_accuracy", Kind::kSparseMatch, METRIC_MEAN},
    {"categorical_accuracy", Kind::kCategoricalMatch, METRIC_MEAN},
    {"binary_accuracy", Kind::kBinaryMatch, METRIC_MEAN},
    {"sparse_top_k_categorical_accuracy", Kind::kSparseTopK, METRIC_MEAN},
    {"top_k_categorical_accuracy", Kind::kCategoricalTopK, METRIC_MEAN},
    {"precision", Kind::kConfusion, METRIC_PRECISION},
    {"recall", Kind::kConfusion, METRIC_RECALL},
    {"true_positives", Kind::kConfusion, METRIC_TRUE_POSITIVES},
    {"false_positives", Kind::kConfusion, METRIC_FALSE_POSITIVES},
    {"false_negatives", Kind::kConfusion, METRIC_FALSE_NEGATIVES},
    {"true_negatives", Kind::kConfusion, METRIC_TRUE_NEGATIVES},
    {"auc", Kind::kCurve, METRIC_AUC_ROC},
    {"f1_score", Kind::kPerClass, METRIC_F1_MACRO},
    {"r2_score", Kind::kResiduals, METRIC_R2},
    {"root_mean_squared_error", Kind::kMeanLoss, METRIC_ROOT},
    {"perplexity", Kind::kMeanLoss, METRIC_EXP},
};

std::vector<std::string_view> MetricNames() {
  std::vector<std::string_view> names{"accuracy", "acc", "crossentropy"};
  for (const NamedMetric& metric : kMetrics) names.push_back(metric.name);
  const std::vector<std::string_view> losses = LossNames();
  names.insert(names.end(), losses.begin(), losses.end());
  return names;
}

// Keras decides by the shapes alone: keras/src/trainers/compile_utils.py.
std::string ByShapes(const std::string& name, const Shape& output, const Shape& targets) {
  const bool accuracy = name == "accuracy" || name == "acc";
  if (!accuracy && name != "crossentropy" && name != "ce") return name;
  const std::string what = accuracy ? "accuracy" : "crossentropy";
  const int64_t classes = output.empty() ? 1 : output.back();
  if (classes == 1) return "binary_" + what;
  const bool one_target = !targets.empty() && targets.back() == 1;
  const bool sparse = targets.size() < output.size() || one_target;
  return (sparse ? "sparse_categorical_" : "categorical_") + what;
}

// Reads a curve's thresholds, which replace the evenly spread ones.
void ReadThresholds(JsonFields& options, MetricSpec& metric) {
  constexpr size_t kThresholdsMax = 10'000;
  if (options.Find("thresholds") == nullptr) return;
  std::vector<double> given;
  options.Numbers("thresholds", given);
  const bool within =
      std::ranges::all_of(given, [](double threshold) { return threshold >= 0 && threshold <= 1; });
  if (given.size() > kThresholdsMax || !within) {
    options.Problem("thresholds",
                    absl::StrCat("must be at most ", kThresholdsMax, " numbers from 0 to 1"));
  }
  std::ranges::sort(given);
  metric.thresholds.assign(given.begin(), given.end());
  metric.points = static_cast<int64_t>(given.size()) + 2;  // plus one below all and one above
}

// Reads the options of AUC, over all labels or by label.
void ReadCurve(JsonFields& options, MetricSpec& metric) {
  static constexpr std::string_view kCurves[] = {"ROC", "PR"}, kSums[] = {"interpolation"};
  std::string curve, sum;
  options.Integer("num_thresholds", 2, 10'000, metric.points);
  ReadThresholds(options, metric);
  options.Bool("from_logits", metric.logits);
  options.OneOf("curve", kCurves, curve);
  options.OneOf("summation_method", kSums, sum);
  if (curve == "PR") metric.state = METRIC_AUC_PR;
  options.Bool("multi_label", metric.by_label);
  const auto labels = static_cast<double>(metric.columns);
  if (metric.by_label && metric.rows != 1) {
    options.Problem("multi_label", "is for outputs of one axis");
  }
  double given = labels;
  options.Number("num_labels", 1, kAnyNumber, given);
  if (given != labels) {
    options.Problem("num_labels", absl::StrCat("is ", given, ", but the output has ", labels));
  }
  const json* const weights = options.Find("label_weights");
  options.Numbers("label_weights", metric.label_weights);
  if (weights != nullptr && weights->is_array() &&
      weights->size() != static_cast<size_t>(metric.columns)) {
    options.Problem(
        "label_weights",
        absl::StrCat("has ", weights->size(), " numbers, but the output has ", labels, " labels"));
  }
  if (metric.by_label && metric.columns > 10'000'000 / metric.points) {
    options.Problem("num_thresholds", "times the labels must be at most 10000000");
  } else if (metric.by_label && weights == nullptr) {
    metric.label_weights.assign(static_cast<size_t>(std::max<int64_t>(metric.columns, 0)), 1);
  }
}

// Reads a threshold, a number or a list of one.
void ReadThreshold(JsonFields& options, double& threshold) {
  const json* const given = options.Find("thresholds");
  if (given == nullptr || !given->is_array()) {
    return options.Number("thresholds", -kAnyNumber, kAnyNumber, threshold);
  }
  std::vector<double> list;
  options.Numbers("thresholds", list);
  if (list.size() == 1) threshold = list[0];
  if (given->size() != 1) {
    options.Problem("thresholds", "must be one number: a metric has one value");
  }
}

// Reads class_id and top_k; without a threshold, the top k classes are predicted whatever their
// numbers.
void ReadClasses(JsonFields& options, MetricSpec& metric) {
  if (options.Find("top_k") != nullptr) {
    options.Integer("top_k", 1, static_cast<uint64_t>(metric.columns), metric.top_k.emplace(1));
    const json* const thresholds = options.Find("thresholds");
    if (thresholds == nullptr) metric.threshold = kLeastOfTopK;
  }
  if (options.Find("class_id") != nullptr) {
    const auto last = static_cast<uint64_t>(std::max<int64_t>(metric.columns - 1, 0));
    options.Integer("class_id", 0, last, metric.class_id.emplace(0));
  }
}

void ReadAverage(JsonFields& options, MetricSpec& metric) {
  static constexpr std::string_view kAverages[] = {"micro", "macro", "weighted"};
  std::string average;
  options.OneOf("average", kAverages, average);
  if (average == "micro") metric.state = METRIC_F1_MICRO;
  if (average == "weighted") metric.state = METRIC_F1_WEIGHTED;
  if (options.Find("average") == nullptr && metric.columns != 1) {
    options.Problem("average", "must be micro, macro or weighted, for a single number");
  }
}

absl::Status ReadOptions(const std::string& title, const NamedSpec& spec, MetricSpec& metric) {
  static constexpr std::string_view kAggregations[] = {"uniform_average"};
  Problems problems;
  JsonFields options(spec.options, title, problems, JsonFields::Null::kAbsent);
  std::string aggregation;
  double regressors = 0;
  switch (metric.kind) {
    case Kind::kMeanLoss:
      if (IsCrossentropy(metric.loss.kind)) ReadCrossentropy(options, metric.loss);
      if (metric.loss.kind == LossKind::kHuber) {
        options.Number("delta", -kAnyNumber, kAnyNumber, metric.loss.delta);
      }
      break;
    case Kind::kSparseTopK:
    case Kind::kCategoricalTopK:
      options.Integer("k", 1, std::numeric_limits<int64_t>::max(), metric.k);
      break;
    case Kind::kConfusion:
      ReadThreshold(options, metric.threshold);
      if (metric.state == METRIC_PRECISION || metric.state == METRIC_RECALL) {
        ReadClasses(options, metric);
      }
      options.Bool("from_logits", metric.logits);
      break;
    case Kind::kCurve:
      ReadCurve(options, metric);
      break;
    case Kind::kPerClass:
      ReadAverage(options, metric);
      metric.by_argmax = options.Find("threshold") == nullptr;
      [[fallthrough]];
    case Kind::kBinaryMatch:
      options.Number("threshold", -kAnyNumber, kAnyNumber, metric.threshold);
      options.Bool("from_logits", metric.logits);
      break;
    case Kind::kResiduals:
      options.Number("num_regressors", 0, 0, regressors);
      options.OneOf("class_aggregation", kAggregations, aggregation);
      // With null, Keras returns a number for each column, which is not supported.
      if (spec.options.contains("class_aggregation") &&
          spec.options["class_aggregation"].is_null()) {
        options.Problem("class_aggregation", IsNoneOf(nullptr, kAggregations));
      }
      break;
    case Kind::kSparseMatch:
    case Kind::kCategoricalMatch:
      break;
  }
  ReportUnknownOptions(spec, options);
  return problems.ToStatus();
}

// The output as a probability, for metrics with thresholds.
float ShareOf(const MetricSpec& m, float y) { return m.logits ? 1 / (1 + std::exp(-y)) : y; }

int64_t ArgMax(const float* row, int64_t columns) {
  return std::max_element(row, row + columns) - row;
}

bool InTopK(const float* row, int64_t columns, int64_t target, int64_t k) {
  if (target < 0 || target >= columns) return false;  // an ignored class, for example
  int64_t better = 0;
  for (int64_t c = 0; c < columns; ++c) better += row[c] > row[target] ? 1 : 0;
  return better < k && std::isfinite(row[target]);
}

double RowMatch(const MetricSpec& m, const float* y, const float* t) {
  switch (m.kind) {
    case Kind::kSparseMatch:
      return ArgMax(y, m.columns) == static_cast<int64_t>(t[0]) ? 1 : 0;
    case Kind::kCategoricalMatch:
      return ArgMax(y, m.columns) == ArgMax(t, m.columns) ? 1 : 0;
    case Kind::kSparseTopK:
      return InTopK(y, m.columns, static_cast<int64_t>(t[0]), m.k) ? 1 : 0;
    case Kind::kCategoricalTopK:
      return InTopK(y, m.columns, ArgMax(t, m.columns), m.k) ? 1 : 0;
    default:
      break;
  }
  int64_t equal = 0;
  const auto threshold = static_cast<float>(m.threshold);
  for (int64_t c = 0; c < m.columns; ++c) {
    equal += t[c] == (ShareOf(m, y[c]) > threshold ? 1.f : 0.f) ? 1 : 0;
  }
  return static_cast<double>(equal) / static_cast<double>(m.columns);
}

// Returns the state's values, grown to at least `n`.
double* Values(MetricState& state, int64_t n) {
  while (state.values_size() < n) state.add_values(0);
  return state.mutable_values()->mutable_data();
}

// Returns a prediction's bucket: the number of thresholds after the first below the prediction.
int64_t BucketOf(const MetricSpec& m, float p) {
  if (!m.thresholds.empty()) {
    return std::ranges::lower_bound(m.thresholds, p) - m.thresholds.begin();
  }
  return static_cast<int64_t>(std::max(std::ceil(p * static_cast<float>(m.points - 1)) - 1, 0.f));
}

// Counts predictions in buckets between the thresholds, as Keras' own implementation does; the
// value sums the buckets above each threshold.
void AddToCurve(const MetricSpec& m, const float* y, const float* t, double weight,
                double* values) {
  const bool weighs = !m.by_label && !m.label_weights.empty();
  for (int64_t c = 0; c < m.columns; ++c, values += m.by_label ? 2 * m.points : 0) {
    const double own = weighs ? weight * m.label_weights[static_cast<size_t>(c)] : weight;
    double p = static_cast<double>(y[c]);
    if (m.logits) p = 1 / (1 + std::exp(-p));
    p = std::min(std::max(0.0, p), 1.0);  // NaN becomes 0
    const int64_t bucket = BucketOf(m, static_cast<float>(p));
    values[t[c] > 0 ? bucket : m.points + bucket] += own;
  }
}

// Whether a number predicts its class: it exceeds the threshold or, by argmax, equals the row's
// maximum and is not zero.
bool SaysClass(const MetricSpec& m, float y, float largest) {
  if (m.by_argmax) return y >= largest && std::abs(y) > 1e-9f;
  return ShareOf(m, y) > static_cast<float>(m.threshold);
}

void AddToClasses(const MetricSpec& m, const float* y, const float* t, double weight,
                  double* values) {
  const float largest = *std::max_element(y, y + m.columns);
  for (int64_t c = 0; c < m.columns; ++c, values += 4) {
    const bool said = SaysClass(m, y[c], largest);
    const double is = static_cast<double>(t[c]);
    values[0] += said ? weight * is : 0;
    values[1] += said ? weight * (1 - is) : 0;
    values[2] += said ? 0 : weight * is;
    values[3] += weight * is;
  }
}

void AddToResiduals(const MetricSpec& m, const float* y, const float* t, double weight,
                    double* values) {
  for (int64_t c = 0; c < m.columns; ++c, values += 4) {
    const double target = static_cast<double>(t[c]), off = target - static_cast<double>(y[c]);
    values[0] += weight * target;
    values[1] += weight * target * target;
    values[2] += weight * off * off;
    values[3] += weight;
  }
}

// Whether the class is among the row's k largest; earlier classes win ties.
bool IsOfTopK(const MetricSpec& m, const float* y, int64_t c) {
  int64_t before = 0;
  for (int64_t i = 0; i < m.columns; ++i) {
    before += y[i] > y[c] || (y[i] == y[c] && i < c) ? 1 : 0;
  }
  return before < *m.top_k;
}

void AddToConfusion(const MetricSpec& m, const float* y, const float* t, double weight,
                    double* values) {
  for (int64_t c = 0; c < m.columns; ++c) {
    if (m.class_id.has_value() && c != *m.class_id) continue;
    const bool of_top = !m.top_k.has_value() || IsOfTopK(m, y, c);
    const bool said = of_top && ShareOf(m, y[c]) > static_cast<float>(m.threshold), is = t[c] > 0;
    if (said && is) values[0] += weight;
    if (said && !is) values[1] += weight;
    if (!said && is) values[2] += weight;
    if (!said && !is) values[3] += weight;
  }
}

int64_t StateSize(const MetricSpec& m) {
  switch (m.kind) {
    case Kind::kConfusion:
      return 4;
    case Kind::kCurve:
      return 2 * m.points * (m.by_label ? m.columns : 1);
    case Kind::kPerClass:
    case Kind::kResiduals:
      return 4 * m.columns;
    default:
      return 2;
  }
}

}  // namespace

bool IsSparse(const MetricSpec& metric) {
  return metric.kind == Kind::kSparseMatch || metric.kind == Kind::kSparseTopK ||
         (metric.kind == Kind::kMeanLoss && IsSparse(metric.loss));
}

bool NeedsProbabilities(const LossSpec& loss) {
  return IsCrossentropy(loss.kind) && !loss.from_logits;
}

bool NeedsProbabilities(const MetricSpec& metric) {
  // People give a threshold of 0 for logits.
  const bool between = metric.threshold > 0 && metric.threshold < 1;
  switch (metric.kind) {
    case Kind::kMeanLoss:
      return NeedsProbabilities(metric.loss);
    case Kind::kCurve:
      return !metric.logits;
    case Kind::kConfusion:
    case Kind::kBinaryMatch:
      return !metric.logits && between;
    case Kind::kPerClass:
      return !metric.logits && !metric.by_argmax && between;
    default:
      return false;
  }
}

absl::StatusOr<MetricSpec> ResolveMetric(const NamedSpec& spec, const Shape& output,
                                         const Shape& targets) {
  const std::string name = ByShapes(spec.name, output, targets);
  const std::string title = absl::StrCat("metric ", spec.name);
  MetricSpec metric;
  const auto own = spec.options.find("label");
  metric.name = own != spec.options.end() && own->is_string() ? own->get<std::string>() : spec.name;
  const RowsAndColumns size(output);
  metric.rows = size.rows;
  metric.columns = size.columns;
  metric.weighted = spec.weighted;
  const auto* known = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                   [&](const NamedMetric& m) { return m.name == name; });
  if (known != std::end(kMetrics)) {
    metric.kind = known->kind;
    metric.state = known->state;
    if (metric.state == METRIC_EXP) {
      metric.loss.kind = LossKind::kSparseCategoricalCrossentropy;
    }
  } else if (const LossKind* loss = FindLoss(name)) {
    metric.loss.kind = *loss;
    if (*loss == LossKind::kCosineSimilarity) metric.sign = -1;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("metric \"", spec.name, "\"", NotSupported(spec.name, MetricNames())));
  }
  RETURN_IF_ERROR(ReadOptions(title, spec, metric));
  RETURN_IF_ERROR(CheckTargetShape(title, IsSparse(metric), output, targets));
  metric.loss.rows = metric.rows;
  metric.loss.columns = metric.columns;
  return metric;
}

void AddToMetric(const MetricSpec& m, int64_t rows, const float* outputs, const float* targets,
                 std::span<const float> weights, MetricState& state) {
  state.set_kind(m.state);
  if (m.by_label)
    state.mutable_label_weights()->Assign(m.label_weights.begin(), m.label_weights.end());
  double* values = Values(state, StateSize(m));
  const bool has_weights = !weights.empty();
  if (m.kind == Kind::kMeanLoss) {
    LossShape shape = m.loss.Over(1);
    shape.rows = rows;
    values[0] += static_cast<double>(m.sign) *
                 CpuLoss(shape, outputs, targets, has_weights ? weights.data() : nullptr);
    double count = has_weights ? 0 : static_cast<double>(rows);
    for (const float weight : weights) count += static_cast<double>(weight);
    values[1] += count;
    return;
  }
  const int64_t targets_each = IsSparse(m) ? 1 : m.columns;
  for (int64_t r = 0; r < rows; ++r) {
    const double weight = has_weights ? static_cast<double>(weights[static_cast<size_t>(r)]) : 1;
    if (weight == 0) continue;
    const float* y = outputs + r * m.columns;
    const float* t = targets + r * targets_each;
    if (m.kind == Kind::kCurve) {
      AddToCurve(m, y, t, weight, values);
    } else if (m.kind == Kind::kConfusion) {
      AddToConfusion(m, y, t, weight, values);
    } else if (m.kind == Kind::kPerClass) {
      AddToClasses(m, y, t, weight, values);
    } else if (m.kind == Kind::kResiduals) {
      AddToResiduals(m, y, t, weight, values);
    } else {
      values[0] += weight * RowMatch(m, y, t);
      values[1] += weight;
    }
  }
}

}  // namespace paracord
