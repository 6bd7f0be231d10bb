// Metrics by Keras' names, and how examples are added to the states of metrics. The states of parts
// of the data add up to the state of all data, up to rounding; common/metric.h computes the value
// of a state. Pure; outputs and targets are in the host's memory.
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
    kBinaryMatch,       // the share of columns where (output > threshold), 0 or 1, is the target
    kSparseTopK,        // the target's class index is among the k largest columns of a row
    kCategoricalTopK,   // the argmax of the targets is among the k largest columns of a row
    kConfusion,         // {true positives, false positives, false negatives, true negatives}
    kCurve,             // the numbers of positives and negatives between thresholds, for an AUC
    kPerClass,   // for each class {true positives, false positives, false negatives, its rows}
    kResiduals,  // for each column the sums for R2
  };
  std::string name;
  Kind kind = Kind::kMeanLoss;
  MetricKind state = METRIC_MEAN;
  LossSpec loss;
  float sign = 1;  // kMeanLoss: multiplies the loss; -1 for cosine_similarity, otherwise 1
  double threshold = 0.5;
  // kPerClass: true: a row predicts its largest column; false: each column above the threshold.
  bool by_argmax = false;
  bool logits = false;  // true: outputs are logits, to which a sigmoid is applied first
  int64_t k = 5;
  // kConfusion: of the columns above the threshold, only the top_k largest of a row are predicted.
  std::optional<int64_t> top_k;
  std::optional<int64_t> class_id;  // kConfusion: only this column counts
  int64_t points = 200;  // kCurve: the number of thresholds, with one below 0 and one above 1
  std::vector<float> thresholds;      // kCurve: all but those two, ascending; empty: evenly spread
  bool by_label = false;              // kCurve: true: each column has a curve of its own
  std::vector<double> label_weights;  // kCurve: a weight for each column; empty: each has weight 1
  int64_t rows = 0, columns = 0;
  bool weighted = false;  // true: sample weights are used
};

// Reads a metric and its options. The shapes decide, as in Keras, whether "accuracy" and
// "crossentropy" are binary, sparse or categorical. INVALID_ARGUMENT names the metric or the
// options that are wrong, or both shapes if the targets do not fit the output.
absl::StatusOr<MetricSpec> ResolveMetric(const NamedSpec& spec, const Shape& output,
                                         const Shape& targets);

// True if targets are class indices, whose range CheckTargets (model_head.h) checks.
bool IsSparse(const MetricSpec& metric);

// True if the metric or loss has a meaning only for outputs that are probabilities.
bool NeedsProbabilities(const MetricSpec& metric);
bool NeedsProbabilities(const LossSpec& loss);

// Adds examples to the state: `rows` rows of outputs, of metric.columns columns each, and their
// targets. `weights` has a weight for each row; empty: each has weight 1.
void AddToMetric(const MetricSpec& metric, int64_t rows, const float* outputs, const float* targets,
                 std::span<const float> weights, MetricState& state);

}  // namespace paracord
