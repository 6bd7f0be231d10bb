// Losses by Keras' names: which there are, which shapes they need, and what they ask of the
// operations. Pure; the arithmetic is in ops.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
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
  float alpha = 0.25f, gamma = 2;  // of the focal ones
  bool balanced = false;
  bool keras2 = false;
  std::optional<int64_t> ignore_class;  // rows of this class take no part
  int64_t rows = 0, columns = 0;        // of one example's output

  int64_t targets() const;  // floats of one example
  LossShape Over(int64_t examples) const {
    const float log_offset = keras2 ? kKeras2LogOffset : 0.f;
    return {kind,  from_logits, rows * examples, columns,  label_smoothing,
            delta, alpha,       gamma,           balanced, log_offset};
  }
};

// Errors name the loss, its option, or the shapes that do not go together.
absl::StatusOr<LossSpec> ResolveLoss(const NamedSpec& spec, const Shape& output,
                                     const Shape& targets);

// The loss of this name, if there is one; also a metric then. No shapes.
const LossKind* FindLoss(std::string_view name);
std::vector<std::string_view> LossNames();

inline bool IsFocal(LossKind kind) {
  return kind == LossKind::kBinaryFocalCrossentropy ||
         kind == LossKind::kCategoricalFocalCrossentropy;
}

// Whether it is one of the losses with the options of ReadCrossentropy.
bool IsCrossentropy(LossKind kind);

class SpecOptions;
// What the options of a crossentropy of any kind say.
void ReadCrossentropy(SpecOptions& options, LossSpec& loss);

// True if targets are class indices, which must be checked before use.
inline bool IsSparse(LossKind kind) { return kind == LossKind::kSparseCategoricalCrossentropy; }
inline bool IsSparse(const LossSpec& loss) { return IsSparse(loss.kind); }

// Of a loss or metric `title`: targets that are class indices, or like the output; up to a last
// axis of 1.
absl::Status CheckTargetShape(const std::string& title, bool sparse, const Shape& output,
                              const Shape& targets);

struct RowsAndColumns {
  explicit RowsAndColumns(const Shape& output)
      : columns(output.empty() ? 1 : output.back()),
        rows(columns == 0 ? 0 : Elements(output) / columns) {}
  int64_t columns, rows;
};

// Reads the options of a loss or a metric by name; what is unknown, or of the wrong kind, is an
// error. Options that Keras writes at the one value that we compute with are skipped.
class SpecOptions {
 public:
  SpecOptions(std::string title, const NamedSpec& spec) : title_(std::move(title)), spec_(spec) {}
  double Number(const std::string& key, double fallback);
  // The same, where Keras may have it as a list of one.
  double OneNumber(const std::string& key, double fallback);
  std::vector<double> Numbers(const std::string& key);  // a list; empty: none
  bool Flag(const std::string& key, bool fallback);
  std::string Text(const std::string& key, const std::string& fallback);
  absl::Status Finish();

 private:
  const nlohmann::json* Find(const std::string& key);
  void Fail(const std::string& key, const std::string& what);

  const std::string title_;
  const NamedSpec& spec_;
  std::vector<std::string> read_;
  absl::Status error_;
};

}  // namespace paracord
