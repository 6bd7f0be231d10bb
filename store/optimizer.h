// Optimizers with Keras 3's names, defaults and formulas (keras/src/optimizers/*.py). An Optimizer
// is a value parsed from the job; its updates are free functions over spans, element by element,
// from `in` to `out`, which may be the same memory. Optimizers know nothing of partitions, locks or
// ledgers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job.h"
#include "proto/paracord.pb.h"
#include "store/learning_rate.h"

namespace paracord {

inline constexpr size_t kSlotsMax = 4;

struct SlotSpec {
  std::string name;  // Keras' name: "velocity"
  float initial = 0;
  bool of_value = false;  // starts with the variable's value
  bool of_rows = false;   // one number a row
};

struct Optimizer {
  enum class Rule {
    kSgd,
    kAdagrad,
    kAdadelta,
    kRmsprop,
    kAdam,
    kAdamax,
    kNadam,
    kLion,
    kFtrl,
  };
  Rule rule = Rule::kSgd;
  LearningRate learning_rate;
  double momentum = 0;  // SGD, RMSprop
  double rho = 0;       // Adadelta, RMSprop
  double beta_1 = 0;    // Adam and its variants, Lion
  double beta_2 = 0;
  double epsilon = 0;
  bool nesterov = false;                                                       // SGD
  bool centered = false;                                                       // RMSprop
  bool amsgrad = false;                                                        // Adam
  double learning_rate_power = 0, l1 = 0, l2 = 0, l2_shrinkage = 0, beta = 0;  // FTRL
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;  // regular expressions, see OptimizerFor
  // Clipping by norm is done by workers, which have the whole gradient.
  std::optional<double> clipvalue;
  bool use_ema = false;  // the last slot is the moving average of the values
  double ema_momentum = 0;
  bool non_neg = false;                  // negative values become 0, after everything else
  std::optional<NormConstraint> norm;    // applied last, by Constrain
  uint64_t ema_overwrite_frequency = 0;  // steps after which it becomes the values; 0: never
  bool lazy = false;                     // a push updates its rows alone (see LazyScalarsAt)
  bool row_wise = false;                 // slots of squares have one number a row
  std::vector<SlotSpec> slots;           // at most kSlotsMax
};

// Parses an optimizer by Keras 3's names and options, and by Keras 2's where its results are the
// same. Errors name the option, or list the supported optimizers.
absl::StatusOr<Optimizer> ParseOptimizer(const NamedSpec& spec);
// Parses a table's own optimizer, which may be row-wise. `path` is its key in the job, for errors.
absl::StatusOr<Optimizer> ParseTableOptimizer(const NamedSpec& spec, const std::string& path);
// Checks variables' own optimizers. INVALID_ARGUMENT names the variable.
absl::Status CheckOwnOptimizers(std::span<const VariableSpec> variables);

// The optimizer for one variable: its own, already checked by CheckOwnOptimizers, or else the job's
// `optimizer`. A moving average with factor keep is updated to value * keep + observation * (1 -
// keep), where the push carries the observation. An excluded variable has no weight decay: as in
// Keras 3, an expression matches the variable's own name ("bias" of "dense/bias"), or the whole
// name if the expression has a "/".
Optimizer OptimizerFor(const VariableSpec& variable, const Optimizer& optimizer);

// Returns the slots kept beside the values: Optimizer::slots, and for a lazy table the rows' step
// counts.
std::vector<SlotSpec> StoredSlots(const Optimizer& optimizer);

// Returns how many numbers a row of `row_elements` has in a slot, and in values and slots together.
uint64_t SlotElements(const SlotSpec& slot, uint64_t row_elements);
uint64_t RowNumbers(const Optimizer& optimizer, uint64_t row_elements);

// True if an update can skip elements without a gradient: values and slots would not change.
bool ZeroGradientChangesNothing(const Optimizer& optimizer);

// The scalars of one update; `step` is the number of batches applied before.
struct UpdateScalars {
  float rate = 0;   // Adam, Adamax: with bias corrections; Nadam: for the gradient
  float decay = 0;  // weight decay * learning rate, the share of the value that is subtracted first
  float clip = 0;   // infinity: no clipping
  float momentum_rate = 0;   // Nadam
  float velocity_scale = 0;  // Nadam
  float twice_l2 = 0;        // FTRL, with beta's share
  float average_keep = 0;    // use_ema
  bool overwrite = false;    // use_ema: the average becomes the value
};
UpdateScalars ScalarsAt(const Optimizer& optimizer, uint64_t step);
// Returns the scalars of a row of a lazy table that has been updated `row_steps` times. A schedule
// of learning rates counts batches as ever; the corrections of biases, momenta and averages count
// the row's own steps.
UpdateScalars LazyScalarsAt(const Optimizer& optimizer, uint64_t step, uint64_t row_steps);

struct UpdateArrays {
  std::span<const float> gradient;
  const float* value_in = nullptr;
  float* value_out = nullptr;
  std::array<const float*, kSlotsMax> slots_in{};  // in the order of Optimizer::slots
  std::array<float*, kSlotsMax> slots_out{};
};

// Updates gradient.size() elements. A slot with one number a row is read, not written. Returns
// false if a result is not finite (it is stored anyway).
bool UpdateElements(const Optimizer& optimizer, const UpdateScalars& scalars,
                    const UpdateArrays& arrays);

// The implementations for the vector widths of this processor; all give the same bits.
// UpdateElements uses the last one. For tests.
using UpdateFunction = bool (*)(const Optimizer&, const UpdateScalars&, const UpdateArrays&);
std::vector<UpdateFunction> UpdatesOfAllWidths();

}  // namespace paracord
