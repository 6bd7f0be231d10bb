// Metrics by Keras' names, and how examples are added to their states. States merge by addition and
// are exact for any split of the examples; common/metric.h computes values. Pure; works on the
// host's memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "keras/losses.h"
#include "proto/paracord.pb.h"

namespace paracord {

struct MetricSpec {
  enum class Kind {
    kMeanLoss,          // the mean of a loss over the rows
    kSparseMatch,       // argmax against a class index
    kCategoricalMatch,  // argmax against argmax
    kBinaryMatch,       // above a threshold, the mean over the columns
    kSparseTopK,        // the target's class is among the k best
    kCategoricalTopK,
    kConfusion,  // {true, false positives, false, true negatives} at a threshold
    kCurve,      // counts at thresholds, for areas under curves
    kPerClass,   // per class: true, false positives, false negatives, support
    kResiduals,  // per column: the sums for R2
  };
  std::string name;
  Kind kind = Kind::kMeanLoss;
  MetricKind state = METRIC_MEAN;
  LossSpec loss;
  float sign = 1;  // for a loss: Keras' metric may be the negative
  double threshold = 0.5;
  bool by_argmax = false;  // kPerClass: the best class is predicted, not all above the threshold
  bool logits = false;     // a sigmoid comes first
  int64_t k = 5;
  std::optional<int64_t> top_k;     // kConfusion: the k largest of a row alone are predicted
  std::optional<int64_t> class_id;  // kConfusion: the only counted column
  int64_t points = 200;             // thresholds of a curve, including one below 0 and one above 1
  std::vector<float> thresholds;    // kCurve: ascending, between the two; empty: spread evenly
  bool by_label = false;            // kCurve: a curve for each column
  std::vector<double> label_weights;  // kCurve: of the columns; empty: all count alike
  int64_t rows = 0, columns = 0;
  bool weighted = false;  // uses sample weights
};

// Reads a metric and its options. The shapes decide, as in Keras, whether "accuracy" and
// "crossentropy" are binary, sparse or categorical. Errors name the metric, the option, or
// mismatched shapes.
absl::StatusOr<MetricSpec> ResolveMetric(const NamedSpec& spec, const Shape& output,
                                         const Shape& targets);

// True if targets are class indices, which must be checked before use.
bool IsSparse(const MetricSpec& metric);

// True if the metric is meaningless for outputs other than probabilities.
bool NeedsProbabilities(const MetricSpec& metric);
bool NeedsProbabilities(const LossSpec& loss);

// Adds some examples: `rows` rows of the metric's columns of outputs. `weights` has a weight for
// each row, or is empty.
void AddToMetric(const MetricSpec& metric, int64_t rows, const float* outputs, const float* targets,
                 std::span<const float> weights, MetricState& state);

}  // namespace paracord
