// Losses by Keras' names: options, required shapes, and the LossShape for the operations. Pure; the
// arithmetic is in ops.h.
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
  bool sum = false;  // reduction: the sum over the batch, not the mean
  float label_smoothing = 0;
  float delta = 1;
  float alpha = 0.25f, gamma = 2;  // for the focal losses
  bool balanced = false;
  bool keras2 = false;
  std::optional<int64_t> ignore_class;  // rows of this class are left out
  int64_t rows = 0, columns = 0;        // per example of the output

  int64_t targets() const;  // floats per example
  LossShape Over(int64_t examples) const {
    const float log_offset = keras2 ? kKeras2LogOffset : 0.f;
    const float least_square = keras2 ? 1e-12f : 1e-14f;
    return {kind,  from_logits, rows * examples, columns,    label_smoothing, delta,
            alpha, gamma,       balanced,        log_offset, least_square};
  }
};

// Reads a loss and its options. Errors name the loss, the option, or mismatched shapes.
absl::StatusOr<LossSpec> ResolveLoss(const NamedSpec& spec, const Shape& output,
                                     const Shape& targets);

// Returns the loss of this name, also valid as a metric; null if unknown. Checks no shapes.
const LossKind* FindLoss(std::string_view name);
std::vector<std::string_view> LossNames();

inline bool IsFocal(LossKind kind) {
  return kind == LossKind::kBinaryFocalCrossentropy ||
         kind == LossKind::kCategoricalFocalCrossentropy;
}

// Whether ReadCrossentropy reads the loss's options.
bool IsCrossentropy(LossKind kind);

// Reads the options common to all crossentropies.
void ReadCrossentropy(JsonFields& options, LossSpec& loss);

// Adds a problem for each unread option, except those written by Keras for every loss and metric
// with their only supported value.
void ReportUnknownOptions(const NamedSpec& spec, JsonFields& options);

// True if targets are class indices, which must be checked before use.
inline bool IsSparse(LossKind kind) { return kind == LossKind::kSparseCategoricalCrossentropy; }
inline bool IsSparse(const LossSpec& loss) { return IsSparse(loss.kind); }

// Checks the targets' shape for a loss or metric called `title`: `sparse` targets are class
// indices, others have the output's shape. A last axis of 1 may be missing or superfluous.
absl::Status CheckTargetShape(const std::string& title, bool sparse, const Shape& output,
                              const Shape& targets);

struct RowsAndColumns {
  explicit RowsAndColumns(const Shape& output)
      : columns(output.empty() ? 1 : output.back()),
        rows(columns == 0 ? 0 : Elements(output) / columns) {}
  int64_t columns, rows;
};

}  // namespace paracord
