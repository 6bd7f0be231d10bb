// Losses by Keras' names: their options, the shapes that they need, and the LossShape for
// Ops::Loss. Pure.
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
  bool sum = false;  // true: the loss is the sum over the batch; false: it is the mean
  float label_smoothing = 0;
  float delta = 1;
  float alpha = 0.25f, gamma = 2;  // for the focal crossentropies
  bool balanced = false;
  bool keras2 = false;
  std::optional<int64_t> ignore_class;  // rows whose target is this class do not count
  // `columns` is the size of the output's last axis, `rows` the product of the sizes of its others.
  int64_t rows = 0, columns = 0;

  int64_t targets() const;  // how many numbers the targets of an example are
  LossShape Over(int64_t examples) const {
    const float log_offset = keras2 ? kKeras2LogOffset : 0.f;
    const float least_square = keras2 ? 1e-12f : 1e-14f;
    return {kind,  from_logits, rows * examples, columns,    label_smoothing, delta,
            alpha, gamma,       balanced,        log_offset, least_square};
  }
};

// Reads a loss and its options. INVALID_ARGUMENT names the loss or the options that are wrong, or
// both shapes if the targets do not fit the output.
absl::StatusOr<LossSpec> ResolveLoss(const NamedSpec& spec, const Shape& output,
                                     const Shape& targets);

// Returns the kind of the loss of this name; null if there is none. Each loss is a metric, too.
const LossKind* FindLoss(std::string_view name);
std::vector<std::string_view> LossNames();

inline bool IsFocal(LossKind kind) {
  return kind == LossKind::kBinaryFocalCrossentropy ||
         kind == LossKind::kCategoricalFocalCrossentropy;
}

// Whether the loss is a crossentropy, focal ones included.
bool IsCrossentropy(LossKind kind);

// Reads those options of a crossentropy that it has both as a loss and as a metric.
void ReadCrossentropy(JsonFields& options, LossSpec& loss);

// Adds a problem for each option that `options` has not read, except for an option that is null,
// and for one that Keras writes for every loss or metric, with a value that changes nothing.
void ReportUnknownOptions(const NamedSpec& spec, JsonFields& options);

// True if targets are class indices, whose range CheckTargets (model_head.h) checks.
inline bool IsSparse(LossKind kind) { return kind == LossKind::kSparseCategoricalCrossentropy; }
inline bool IsSparse(const LossSpec& loss) { return IsSparse(loss.kind); }

// Checks the targets' shape for a loss or metric that errors call `title`: `sparse` targets are a
// class index for each row of the output, other targets have the output's shape; in both cases they
// may lack a last axis of size 1, or have one more. INVALID_ARGUMENT names both shapes.
absl::Status CheckTargetShape(const std::string& title, bool sparse, const Shape& output,
                              const Shape& targets);

struct RowsAndColumns {
  explicit RowsAndColumns(const Shape& output)
      : columns(output.empty() ? 1 : output.back()),
        rows(columns == 0 ? 0 : Elements(output) / columns) {}
  int64_t columns, rows;
};

}  // namespace paracord
