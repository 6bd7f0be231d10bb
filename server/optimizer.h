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
#include "common/job.h"
#include "server/learning_rate.h"

namespace paracord {

inline constexpr size_t kSlotsMax = 3;

struct SlotSpec {
  std::string name;  // as Keras calls it: "velocity"
  float initial = 0;
};

struct Optimizer {
  enum class Rule { kSgd, kAdagrad, kRmsprop, kAdam };
  Rule rule = Rule::kSgd;
  LearningRate learning_rate;
  double momentum = 0;  // SGD, RMSprop
  double rho = 0;       // RMSprop
  double beta_1 = 0;    // Adam
  double beta_2 = 0;    // Adam
  double epsilon = 0;
  bool nesterov = false;  // SGD
  bool centered = false;  // RMSprop
  bool amsgrad = false;   // Adam
  std::optional<double> weight_decay;
  std::optional<double>
      clipvalue;                // clipping by norm is the worker's, which has the whole gradient
  std::vector<SlotSpec> slots;  // at most kSlotsMax
};

// "sgd", "adagrad", "rmsprop", "adam", "adamw". Errors name the option.
absl::StatusOr<Optimizer> ParseOptimizer(const NamedSpec& spec);

// What updates a variable: `optimizer`, or for a moving average that keeps so much each time (0: it
// is none) value * keep + observation * (1 - keep), where a push carries the observation.
Optimizer OptimizerFor(double moving_average, const Optimizer& optimizer);

// What the kernels need of one update; `step` is the number of batches applied before.
struct UpdateScalars {
  float rate = 0;   // Adam: with both bias corrections
  float decay = 0;  // share of the value taken away first: weight decay * learning rate
  float clip = 0;   // infinite: none
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

}  // namespace paracord
