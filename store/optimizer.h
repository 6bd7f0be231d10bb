// Optimizers, with Keras 3's names, defaults and formulas (keras/src/optimizers/*.py). An Optimizer
// is a value read from the job; its work is free functions over spans, one element at a time, `in`
// to `out`, which may be the same memory. Knows nothing of partitions, locks or ledgers.
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
  std::string name;  // as Keras calls it: "velocity"
  float initial = 0;
  bool of_value = false;  // starts as the variable does
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
  double beta_1 = 0;    // Adam and its kin, Lion
  double beta_2 = 0;
  double epsilon = 0;
  bool nesterov = false;                                                       // SGD
  bool centered = false;                                                       // RMSprop
  bool amsgrad = false;                                                        // Adam
  double learning_rate_power = 0, l1 = 0, l2 = 0, l2_shrinkage = 0, beta = 0;  // FTRL
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;  // regular expressions, see OptimizerFor
  // Clipping by norm is the worker's, which has the whole gradient.
  std::optional<double> clipvalue;
  bool use_ema = false;  // the average of the values over the steps is the last slot
  double ema_momentum = 0;
  bool non_neg = false;                  // negative values become 0, after everything else
  std::optional<NormConstraint> norm;    // after everything else, which is Constrain's to do
  uint64_t ema_overwrite_frequency = 0;  // steps after which it becomes the values; 0: never
  std::vector<SlotSpec> slots;           // at most kSlotsMax
};

// The names and options of Keras 3, and what Keras 2 writes where its numbers are the same. Errors
// name the option, or the optimizers that there are.
absl::StatusOr<Optimizer> ParseOptimizer(const NamedSpec& spec);

// What updates a variable: `optimizer`, or for a moving average that keeps so much each time (0: it
// is none) value * keep + observation * (1 - keep), where a push carries the observation. Without
// weight decay for a variable that is excluded from it: as in Keras 3 one of the expressions is
// found in the variable's own name ("bias" of "dense/bias"), or, if it has a "/", in the whole.
Optimizer OptimizerFor(const VariableSpec& variable, const Optimizer& optimizer);

// Whether an element without a gradient stays as it is, with its slots: such a one need not be
// touched at all.
bool ZeroGradientChangesNothing(const Optimizer& optimizer);

// What the kernels need of one update; `step` is the number of batches applied before.
struct UpdateScalars {
  float rate = 0;            // Adam, Adamax: with the bias corrections; Nadam: of the gradient
  float decay = 0;           // share of the value taken away first: weight decay * learning rate
  float clip = 0;            // infinite: none
  float momentum_rate = 0;   // Nadam
  float velocity_scale = 0;  // Nadam
  float twice_l2 = 0;        // FTRL, with beta's share
  float average_keep = 0;    // use_ema
  bool overwrite = false;    // use_ema: the average becomes the value
};
UpdateScalars ScalarsAt(const Optimizer& optimizer, uint64_t step);

struct UpdateArrays {
  std::span<const float> gradient;
  const float* value_in = nullptr;
  float* value_out = nullptr;
  std::array<const float*, kSlotsMax> slots_in{};  // in the order of Optimizer::slots
  std::array<float*, kSlotsMax> slots_out{};
};

// One step over gradient.size() elements. False: some result is not finite (it is stored anyway).
bool Update(const Optimizer& optimizer, const UpdateScalars& scalars, const UpdateArrays& arrays);

// The versions that this processor can run, which give the same bits; Update picks the last. For
// tests.
using UpdateFunction = bool (*)(const Optimizer&, const UpdateScalars&, const UpdateArrays&);
std::vector<UpdateFunction> UpdatesOfAllWidths();

}  // namespace paracord
