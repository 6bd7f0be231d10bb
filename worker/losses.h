// Losses and metrics by Keras' names: which there are, which shapes they need, and what they ask of
// the operations. Pure; the arithmetic is in ops.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job.h"
#include "worker/layer.h"
#include "worker/ops.h"

namespace paracord {

struct LossSpec {
  LossKind kind = LossKind::kMeanSquaredError;
  bool from_logits = false;
  int64_t rows = 0, columns = 0;  // of one example's output

  int64_t targets() const;  // floats of one example
};

// A metric is the mean over rows of a match or of a loss.
struct MetricSpec {
  std::string name;
  bool is_match = false;
  MatchKind match = MatchKind::kSparse;
  float threshold = 0.5f;  // kBinary
  LossKind loss = LossKind::kMeanSquaredError;
  int64_t rows = 0, columns = 0;
};

// Errors name the loss, its option, or the shapes that do not go together.
absl::StatusOr<LossSpec> ResolveLoss(const NamedSpec& spec, const Shape& output,
                                     const Shape& targets);
// "accuracy" becomes the binary, sparse or categorical one as in Keras, by the shapes.
absl::StatusOr<MetricSpec> ResolveMetric(const NamedSpec& spec, const Shape& output,
                                         const Shape& targets);

// True if targets are class indices, which must be checked before use.
inline bool IsSparse(const LossSpec& loss) {
  return loss.kind == LossKind::kSparseCategoricalCrossentropy;
}
inline bool IsSparse(const MetricSpec& metric) {
  return metric.is_match && metric.match == MatchKind::kSparse;
}

}  // namespace paracord
