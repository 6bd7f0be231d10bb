// Metrics by Keras' names, and how examples are added to the states of metrics. States of parts of
// the data add up to the state of all, up to rounding; common/metric.h computes values. Pure; works
// on the host's memory.
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
    kSparseMatch,       // the argmax of a row is the target's class index
    kCategoricalMatch,  // the argmax of a row is the argmax of the targets
    kBinaryMatch,       // the share of columns whose target, 0 or 1, is (output > threshold)
    kSparseTopK,        // the target's class index is among the k best of a row
    kCategoricalTopK,   // the argmax of the targets is among the k best of a row
    kConfusion,         // {true positives, false positives, false negatives, true negatives}
    kCurve,             // counts of positives and of negatives between thresholds, for an AUC
    kPerClass,   // for each class {true positives, false positives, false negatives, support}
    kResiduals,  // for each column the sums for R2
  };
  std::string name;
  Kind kind = Kind::kMeanLoss;
  MetricKind state = METRIC_MEAN;
  LossSpec loss;
  float sign = 1;  // kMeanLoss: multiplies the loss; -1 for cosine_similarity, as in Keras
  double threshold = 0.5;
  // kPerClass: a row predicts its largest column. False: every column above the threshold.
  bool by_argmax = false;
  bool logits = false;  // outputs go through a sigmoid first
  int64_t k = 5;
  std::optional<int64_t> top_k;     // kConfusion: only the k largest columns of a row are predicted
  std::optional<int64_t> class_id;  // kConfusion: counts only this column
  int64_t points = 200;             // kCurve: thresholds, including one below 0 and one above 1
  std::vector<float> thresholds;    // kCurve: all others, ascending; empty: evenly spread
  bool by_label = false;            // kCurve: a curve for each column
  std::vector<double> label_weights;  // kCurve: a weight for each column; empty: 1 each
  int64_t rows = 0, columns = 0;
  bool weighted = false;  // uses sample weights
};

// Reads a metric and its options. The shapes decide, as in Keras, whether "accuracy" and
// "crossentropy" are binary, sparse or categorical. INVALID_ARGUMENT names the metric or the
// option, or both shapes if the targets do not fit the output.
absl::StatusOr<MetricSpec> ResolveMetric(const NamedSpec& spec, const Shape& output,
                                         const Shape& targets);

// True if targets are class indices. CheckTargets (model_head.h) checks their range before use.
bool IsSparse(const MetricSpec& metric);

// True if the metric or loss is meaningless for outputs other than probabilities.
bool NeedsProbabilities(const MetricSpec& metric);
bool NeedsProbabilities(const LossSpec& loss);

// Adds examples to the state: `rows` rows of outputs, with the metric's columns, and their targets.
// `weights` has a weight for each row, or is empty.
void AddToMetric(const MetricSpec& metric, int64_t rows, const float* outputs, const float* targets,
                 std::span<const float> weights, MetricState& state);

}  // namespace paracord
