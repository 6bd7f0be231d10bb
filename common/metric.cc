#include "common/metric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace paracord {
namespace {

// part / whole, or 0 for whole = 0, as in Keras.
double Share(double part, double whole) { return whole == 0 ? 0 : part / whole; }

// values: positives, then negatives, n of each, by bucket of the prediction. Counts above threshold
// i are sums of the buckets from i on. Formulas: keras/src/metrics/confusion_metrics.py, AUC.
double AreaOfLabel(const double* values, int n, bool pr) {
  std::vector<double> tp(static_cast<size_t>(n)), fp(static_cast<size_t>(n));
  double positives = 0, negatives = 0;
  for (int i = n; i-- > 0;) {
    positives += values[i];
    negatives += values[n + i];
    tp[static_cast<size_t>(i)] = positives;
    fp[static_cast<size_t>(i)] = negatives;
  }
  double area = 0;
  for (size_t i = 0; i + 1 < tp.size(); ++i) {
    if (!pr) {
      const double width = Share(fp[i] - fp[i + 1], negatives);
      area += width * (Share(tp[i], positives) + Share(tp[i + 1], positives)) / 2;
      continue;
    }
    const double p = tp[i] + fp[i], next = tp[i + 1] + fp[i + 1];
    const double slope = Share(tp[i] - tp[i + 1], std::max(p - next, 0.0));
    const double intercept = tp[i + 1] - slope * next;
    const double ratio = p > 0 && next > 0 ? p / next : 1;
    area += Share(slope * (tp[i] - tp[i + 1] + intercept * std::log(ratio)), positives);
  }
  return area;
}

double AreaUnderCurve(const MetricState& state, bool pr) {
  const double* const values = state.values().data();
  if (state.label_weights().empty()) return AreaOfLabel(values, state.values_size() / 2, pr);
  const int labels = state.label_weights_size(), n = state.values_size() / labels / 2;
  double sum = 0, weights = 0;
  for (int label = 0; label < labels; ++label) {
    sum += state.label_weights(label) * AreaOfLabel(values + 2 * n * label, n, pr);
    weights += state.label_weights(label);
  }
  return Share(sum, weights);
}

// values: of each class true positives, false positives, false negatives, support.
double F1(const MetricState& state) {
  constexpr double kEpsilon = 1e-7;
  const auto score = [](double tp, double fp, double fn) {
    const double precision = tp / (tp + fp + kEpsilon), recall = tp / (tp + fn + kEpsilon);
    return 2 * precision * recall / (precision + recall + kEpsilon);
  };
  double all[4] = {0, 0, 0, 0}, sum = 0, weighted = 0;
  const int classes = state.values_size() / 4;
  for (int c = 0; c < classes; ++c) {
    const double* v = state.values().data() + 4 * c;
    for (int i = 0; i < 4; ++i) all[i] += v[i];
    sum += score(v[0], v[1], v[2]);
    weighted += score(v[0], v[1], v[2]) * v[3];
  }
  if (state.kind() == METRIC_F1_MICRO) return score(all[0], all[1], all[2]);
  return state.kind() == METRIC_F1_WEIGHTED ? weighted / (all[3] + kEpsilon) : sum / classes;
}

// `values` are, for each column: the sum of targets, of squared targets, of squared errors, and of
// weights.
double R2(const MetricState& state) {
  double sum = 0;
  const int columns = state.values_size() / 4;
  for (int c = 0; c < columns; ++c) {
    const double* v = state.values().data() + 4 * c;
    const double total = v[1] - v[0] * v[0] / v[3];
    sum += total == 0 ? 0 : 1 - v[2] / total;
  }
  return sum / columns;
}

}  // namespace

void MergeMetric(const MetricState& state, MetricState& sum) {
  sum.set_kind(state.kind());
  if (!state.label_weights().empty()) *sum.mutable_label_weights() = state.label_weights();
  while (sum.values_size() < state.values_size()) sum.add_values(0);
  for (int i = 0; i < state.values_size(); ++i) {
    sum.set_values(i, sum.values(i) + state.values(i));
  }
}

double MetricValue(const MetricState& state) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (state.values_size() < 2) return kNone;
  switch (state.kind()) {
    case METRIC_PRECISION:
      return Share(state.values(0), state.values(0) + state.values(1));
    case METRIC_RECALL:
      return state.values_size() < 3 ? kNone
                                     : Share(state.values(0), state.values(0) + state.values(2));
    case METRIC_TRUE_POSITIVES:
    case METRIC_FALSE_POSITIVES:
    case METRIC_FALSE_NEGATIVES:
    case METRIC_TRUE_NEGATIVES: {
      const int at = state.kind() - METRIC_TRUE_POSITIVES;
      return at < state.values_size() ? state.values(at) : kNone;
    }
    case METRIC_AUC_ROC:
    case METRIC_AUC_PR:
      return AreaUnderCurve(state, state.kind() == METRIC_AUC_PR);
    case METRIC_F1_MACRO:
    case METRIC_F1_MICRO:
    case METRIC_F1_WEIGHTED:
      return state.values_size() < 4 ? kNone : F1(state);
    case METRIC_R2:
      return state.values_size() < 4 ? kNone : R2(state);
    default:
      break;
  }
  const double mean = Share(state.values(0), state.values(1));
  if (state.kind() == METRIC_ROOT) return std::sqrt(mean);
  return state.kind() == METRIC_EXP ? std::exp(mean) : mean;
}

}  // namespace paracord
