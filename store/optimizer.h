// Optimizers with Keras 3's names, defaults and formulas (keras/src/optimizers/*.py). An Optimizer
// is a value parsed from the job; its updates are free functions over arrays, element by element.
// Input and output arrays may be the same memory. Optimizers know nothing of partitions, locks or
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
  std::string name;  // Keras' name, such as "velocity"
  float initial = 0;
  bool of_value = false;  // begins with the variable's initial values, not with `initial`
  bool of_rows = false;   // one number for each row, not for each element
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
  // Clips each element. Clipping by norm (config/norm_clip.h) is done elsewhere.
  std::optional<double> clipvalue;
  bool use_ema = false;  // whether the last slot is the moving average of the values
  double ema_momentum = 0;
  bool non_neg = false;                // negative values become 0, before `norm` is applied
  std::optional<NormConstraint> norm;  // applied last, by ScaleToNorm
  // The average becomes the values whenever so many steps have passed; 0: never.
  uint64_t ema_overwrite_frequency = 0;
  bool lazy = false;            // a push updates only the rows that it names (LazyScalarsAt)
  bool row_wise = false;        // slots of squares have one number for each row
  std::vector<SlotSpec> slots;  // at most kSlotsMax
};

// Parses an optimizer by Keras 3's names and options; Keras 2's are accepted where the results are
// the same. INVALID_ARGUMENT names the wrong option, or says which optimizers are supported.
absl::StatusOr<Optimizer> ParseOptimizer(const NamedSpec& spec);
// Parses a table's own optimizer, which may be row-wise, but not clip by norm. Errors name `path`.
absl::StatusOr<Optimizer> ParseTableOptimizer(const NamedSpec& spec, const std::string& path);
// Checks the optimizers of those tables that have their own. INVALID_ARGUMENT names the variable.
absl::Status CheckOwnOptimizers(std::span<const VariableSpec> variables);

// Returns the optimizer for one variable: its own, already checked by CheckOwnOptimizers, or else
// `optimizer`, the job's. A variable that is a moving average with factor k gets an optimizer that
// updates it to value * k + observation * (1 - k), where the push carries the observation. A
// variable excluded by exclude_from_weight_decay has no weight decay. As in Keras 3, an expression
// matches the variable's own name ("bias" of "dense/bias"), or the whole name if the expression has
// a "/".
Optimizer OptimizerFor(const VariableSpec& variable, const Optimizer& optimizer);

// Returns the slots stored beside the values: Optimizer::slots, and for a lazy table the rows' step
// counts.
std::vector<SlotSpec> StoredSlots(const Optimizer& optimizer);

// SlotElements returns how many numbers a row has in a slot; RowNumbers, in its values and all
// Optimizer::slots together.
uint64_t SlotElements(const SlotSpec& slot, uint64_t row_elements);
uint64_t RowNumbers(const Optimizer& optimizer, uint64_t row_elements);

// Whether an update can skip elements without a gradient, as it would not change their values and
// slots.
bool ZeroGradientChangesNothing(const Optimizer& optimizer);

// The scalars of one update. `step` is the number of steps (batches or rounds) before the update.
struct UpdateScalars {
  float rate = 0;   // learning rate; with bias corrections for Adam, Adamax and Nadam
  float decay = 0;  // weight decay * learning rate, the share subtracted from the value first
  float clip = 0;   // clipvalue; infinity: elements are not clipped
  float momentum_rate = 0;   // Nadam: rate of the momentum
  float velocity_scale = 0;  // Nadam: bias correction of the velocity
  float twice_l2 = 0;        // FTRL: 2 * l2 + beta / learning rate
  float average_keep = 0;    // with use_ema: the share of the average that stays
  bool overwrite = false;    // with use_ema: whether the average becomes the value
};
UpdateScalars ScalarsAt(const Optimizer& optimizer, uint64_t step);
// Returns the scalars of a row of a lazy table that has been updated `row_steps` times. The
// learning rate depends on `step`; corrections of biases, momenta and averages on `row_steps`.
UpdateScalars LazyScalarsAt(const Optimizer& optimizer, uint64_t step, uint64_t row_steps);

struct UpdateArrays {
  std::span<const float> gradient;
  const float* value_in = nullptr;
  float* value_out = nullptr;
  std::array<const float*, kSlotsMax> slots_in{};  // in the order of Optimizer::slots
  std::array<float*, kSlotsMax> slots_out{};
};

// Updates gradient.size() elements, without `norm`. A slot with one number a row is read, not
// written. Returns false if a result is not finite (it is stored anyway).
bool UpdateElements(const Optimizer& optimizer, const UpdateScalars& scalars,
                    const UpdateArrays& arrays);

// For tests: the implementations of UpdateElements for the vector widths of this processor, which
// all give the same bits. UpdateElements uses the last one.
using UpdateFunction = bool (*)(const Optimizer&, const UpdateScalars&, const UpdateArrays&);
std::vector<UpdateFunction> UpdatesOfAllWidths();

}  // namespace paracord
