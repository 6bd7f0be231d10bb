#include "store/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/nearest.h"
#include "store/options_reader.h"

namespace paracord {
namespace {

using nlohmann::json;

// Reads a number that has no default.
double Required(OptionsReader& options, const std::string& key) {
  if (options.Find(key) == nullptr) options.Problem(key, "is missing");
  return options.Number(key, 0);
}

double Positive(OptionsReader& options, const std::string& key) {
  const double value = Required(options, key);
  if (!(value > 0 && std::isfinite(value))) options.Problem(key, "must be positive");
  return value;
}

std::vector<double> Numbers(OptionsReader& options, const std::string& key) {
  std::vector<double> numbers;
  const json* list = options.Find(key);
  if (list == nullptr || !list->is_array()) {
    options.Problem(key, "must be a list of numbers");
    return numbers;
  }
  for (const json& item : *list) {
    if (!item.is_number()) options.Problem(key, "must be a list of numbers");
    numbers.push_back(item.is_number() ? item.get<double>() : 0);
  }
  return numbers;
}

LearningRate ReadPiecewise(OptionsReader& options) {
  PiecewiseConstantDecay schedule{Numbers(options, "boundaries"), Numbers(options, "values")};
  if (schedule.values.size() != schedule.boundaries.size() + 1) {
    options.Problem("values", "must have one number more than boundaries");
  }
  if (!std::is_sorted(schedule.boundaries.begin(), schedule.boundaries.end())) {
    options.Problem("boundaries", "must ascend");
  }
  return schedule;
}

LearningRate ReadCosine(OptionsReader& options) {
  CosineDecay schedule{.initial = Required(options, "initial_learning_rate"),
                       .decay_steps = Positive(options, "decay_steps"),
                       .alpha = options.Number("alpha", 0)};
  const std::optional<double> target = options.Number("warmup_target");
  schedule.warmup = target.has_value();
  schedule.warmup_target = target.value_or(0);
  schedule.warmup_steps = options.Number("warmup_steps", 0);
  options.Range("warmup_steps", schedule.warmup_steps, 0, kUnbounded);
  return schedule;
}

// Reads a decay rate, which must be positive, because steps make fractional powers of it.
double DecayRate(OptionsReader& options) {
  const double rate = Required(options, "decay_rate");
  options.Range("decay_rate", rate, 0, kUnbounded);
  return rate;
}

LearningRate ReadExponential(OptionsReader& options) {
  return ExponentialDecay{Required(options, "initial_learning_rate"),
                          Positive(options, "decay_steps"), DecayRate(options),
                          options.Bool("staircase", false)};
}

LearningRate ReadInverseTime(OptionsReader& options) {
  return InverseTimeDecay{Required(options, "initial_learning_rate"),
                          Positive(options, "decay_steps"), DecayRate(options),
                          options.Bool("staircase", false)};
}

LearningRate ReadPolynomial(OptionsReader& options) {
  return PolynomialDecay{Required(options, "initial_learning_rate"),
                         Positive(options, "decay_steps"),
                         options.Number("end_learning_rate", 0.0001), options.Number("power", 1),
                         options.Bool("cycle", false)};
}

LearningRate ReadCosineRestarts(OptionsReader& options) {
  CosineDecayRestarts schedule{Required(options, "initial_learning_rate"),
                               Positive(options, "first_decay_steps"), options.Number("t_mul", 2),
                               options.Number("m_mul", 1), options.Number("alpha", 0)};
  // Periods that get shorter would come to an end, and Keras to the logarithm of a negative number.
  options.Range("t_mul", schedule.t_mul, 1, kUnbounded);
  options.Range("m_mul", schedule.m_mul, 0, kUnbounded);
  return schedule;
}

struct ScheduleEntry {
  std::string_view name;
  LearningRate (*read)(OptionsReader& options);
};
constexpr ScheduleEntry kSchedules[] = {
    {"exponential_decay", ReadExponential},
    {"inverse_time_decay", ReadInverseTime},
    {"piecewise_constant_decay", ReadPiecewise},
    {"polynomial_decay", ReadPolynomial},
    {"cosine_decay", ReadCosine},
    {"cosine_decay_restarts", ReadCosineRestarts},
};

LearningRate ReadSchedule(const std::string& name, OptionsReader& options) {
  std::vector<std::string_view> names;
  for (const ScheduleEntry& entry : kSchedules) {
    if (entry.name == name) return entry.read(options);
    names.push_back(entry.name);
  }
  options.Problem("name", absl::StrCat("no schedule \"", name, "\"; there are ", JoinNames(names)));
  return ConstantRate{};
}

double Evaluate(const ConstantRate& schedule, double /*step*/) { return schedule.rate; }

double Evaluate(const ExponentialDecay& schedule, double step) {
  double exponent = step / schedule.decay_steps;
  if (schedule.staircase) exponent = std::floor(exponent);
  return schedule.initial * std::pow(schedule.decay_rate, exponent);
}

double Evaluate(const InverseTimeDecay& schedule, double step) {
  double times = step / schedule.decay_steps;
  if (schedule.staircase) times = std::floor(times);
  return schedule.initial / (1 + schedule.decay_rate * times);
}

// The value is values[0] up to and including boundaries[0], and so on.
double Evaluate(const PiecewiseConstantDecay& schedule, double step) {
  const auto at = std::lower_bound(schedule.boundaries.begin(), schedule.boundaries.end(), step);
  return schedule.values[static_cast<size_t>(at - schedule.boundaries.begin())];
}

double Evaluate(const PolynomialDecay& schedule, double step) {
  double steps = schedule.decay_steps;
  if (schedule.cycle) {
    steps *= step == 0 ? 1 : std::ceil(step / steps);
  } else {
    step = std::min(step, steps);
  }
  return (schedule.initial - schedule.end) * std::pow(1 - step / steps, schedule.power) +
         schedule.end;
}

double Evaluate(const CosineDecay& schedule, double step) {
  double from = schedule.initial;
  if (schedule.warmup) {
    if (step < schedule.warmup_steps) {
      const double share = step / schedule.warmup_steps;
      return schedule.initial + share * (schedule.warmup_target - schedule.initial);
    }
    step -= schedule.warmup_steps;
    from = schedule.warmup_target;
  }
  const double share = std::min(step, schedule.decay_steps) / schedule.decay_steps;
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * share));
  return from * ((1 - schedule.alpha) * cosine + schedule.alpha);
}

// Each period is t_mul times as long as the one before, and begins with m_mul times its rate. Keras
// counts periods by a logarithm in float32, which may be off by one where a period begins.
double Evaluate(const CosineDecayRestarts& schedule, double step) {
  double periods = step / schedule.first_decay_steps;
  double restarts = 0;
  if (schedule.t_mul == 1) {
    restarts = std::floor(periods);
    periods -= restarts;
  } else {
    double length = 1;
    for (; periods >= length; ++restarts) {
      periods -= length;
      length *= schedule.t_mul;
    }
    periods /= length;
  }
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * periods));
  return schedule.initial *
         ((1 - schedule.alpha) * std::pow(schedule.m_mul, restarts) * cosine + schedule.alpha);
}

}  // namespace

absl::StatusOr<LearningRate> ParseLearningRate(const json& value, const std::string& path) {
  if (value.is_number()) {
    const double rate = value.get<double>();
    if (!(rate >= 0 && std::isfinite(rate))) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": must not be negative, is ", rate));
    }
    return ConstantRate{rate};
  }
  if (!value.is_object() || !value.contains("name") || !value["name"].is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": must be a number or a schedule with \"name\""));
  }
  OptionsReader options(value, path);
  options.Find("name");
  LearningRate schedule = ReadSchedule(value["name"].get<std::string>(), options);
  RETURN_IF_ERROR(options.Finish());
  return schedule;
}

double RateAt(const LearningRate& schedule, uint64_t step) {
  return std::visit([&](const auto& kind) { return Evaluate(kind, static_cast<double>(step)); },
                    schedule);
}

}  // namespace paracord
