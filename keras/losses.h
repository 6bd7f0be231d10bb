// Losses by Keras' names: options, required shapes, and the LossShape for the operation
// (tensor/ops.h). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "config/json_fields.h"
#include "keras/layers/layer.h"
#include "tensor/ops.h"

namespace paracord {

constexpr float kKeras2LogOffset = 1e-7f;

struct LossSpec {
  LossKind kind = LossKind::kMeanSquaredError;
  bool from_logits = false;
  bool sum = false;  // the loss is the sum over the batch; false: the mean
  float label_smoothing = 0;
  float delta = 1;
  float alpha = 0.25f, gamma = 2;  // for the focal crossentropies
  bool balanced = false;
  bool keras2 = false;
  std::optional<int64_t> ignore_class;  // rows whose target is this class do not count
  int64_t rows = 0, columns = 0;        // size of an example's output; `columns` is the last axis

  int64_t targets() const;  // numbers of targets per example
  LossShape Over(int64_t examples) const {
    const float log_offset = keras2 ? kKeras2LogOffset : 0.f;
    const float least_square = keras2 ? 1e-12f : 1e-14f;
    return {kind,  from_logits, rows * examples, columns,    label_smoothing, delta,
            alpha, gamma,       balanced,        log_offset, least_square};
  }
};

// Reads a loss and its options. INVALID_ARGUMENT names the loss or the option, or both shapes if
// the targets do not fit the output.
absl::StatusOr<LossSpec> ResolveLoss(const NamedSpec& spec, const Shape& output,
                                     const Shape& targets);

// Returns the kind of the loss of this name; null if there is none. The names are metrics, too.
const LossKind* FindLoss(std::string_view name);
std::vector<std::string_view> LossNames();

inline bool IsFocal(LossKind kind) {
  return kind == LossKind::kBinaryFocalCrossentropy ||
         kind == LossKind::kCategoricalFocalCrossentropy;
}

// Whether the loss is a crossentropy, focal ones included.
bool IsCrossentropy(LossKind kind);

// Reads the options that a crossentropy has both as a loss and as a metric.
void ReadCrossentropy(JsonFields& options, LossSpec& loss);

// Adds a problem for each unread option. Options that are null, and options that Keras writes for
// every loss and metric with the only supported value, are no problem.
void ReportUnknownOptions(const NamedSpec& spec, JsonFields& options);

// True if targets are class indices. CheckTargets (model_head.h) checks their range before use.
inline bool IsSparse(LossKind kind) { return kind == LossKind::kSparseCategoricalCrossentropy; }
inline bool IsSparse(const LossSpec& loss) { return IsSparse(loss.kind); }

// Checks the targets' shape for a loss or metric called `title`: `sparse` targets are a class index
// for each row of the output, other targets have the output's shape. A last axis of size 1 may be
// missing or superfluous. INVALID_ARGUMENT names both shapes.
absl::Status CheckTargetShape(const std::string& title, bool sparse, const Shape& output,
                              const Shape& targets);

struct RowsAndColumns {
  explicit RowsAndColumns(const Shape& output)
      : columns(output.empty() ? 1 : output.back()),
        rows(columns == 0 ? 0 : Elements(output) / columns) {}
  int64_t columns, rows;
};

}  // namespace paracord
