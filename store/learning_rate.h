// Learning rates: a constant, or one of Keras' schedules with Keras' names, defaults and formulas
// (keras/src/optimizers/schedules/learning_rate_schedule.py). A rate depends on the step alone.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "config/json_fields.h"
#include "nlohmann/json.hpp"

namespace paracord {

struct ConstantRate {
  double rate = 0;
};
struct ExponentialDecay {
  double initial = 0, decay_steps = 1, decay_rate = 1;
  bool staircase = false;
};
struct InverseTimeDecay {
  double initial = 0, decay_steps = 1, decay_rate = 1;
  bool staircase = false;
};
struct PiecewiseConstantDecay {
  std::vector<double> boundaries;  // at index i, the last step that has values[i]; ascending
  std::vector<double> values;
};
struct PolynomialDecay {
  double initial = 0, decay_steps = 1, end = 0.0001, power = 1;
  bool cycle = false;
};
struct CosineDecay {
  double initial = 0, decay_steps = 1, alpha = 0;
  bool warmup = false;
  double warmup_target = 0, warmup_steps = 0;
};
struct CosineDecayRestarts {
  double initial = 0, first_decay_steps = 1, t_mul = 2, m_mul = 1, alpha = 0;
};

using LearningRate =
    std::variant<ConstantRate, ExponentialDecay, InverseTimeDecay, PiecewiseConstantDecay,
                 PolynomialDecay, CosineDecay, CosineDecayRestarts>;

// Reads a number, or an object with "name" in snake_case and the schedule's options. Adds what is
// wrong to `problems`, under `path`; then the result is not to be used.
LearningRate ReadLearningRate(const nlohmann::json& value, const std::string& path,
                              Problems& problems);

// The rate of a step. `step` is how many batches, or in a synchronous job rounds, were applied
// before.
double RateAt(const LearningRate& schedule, uint64_t step);
// Returns the rate of the last of the first `steps` steps; if `steps` is 0, that of the first step.
inline double NewestRate(const LearningRate& schedule, uint64_t steps) {
  return RateAt(schedule, steps > 0 ? steps - 1 : 0);
}

}  // namespace paracord
