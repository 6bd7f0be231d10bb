#include "store/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

using nlohmann::json;

// Reads a required number.
double Required(JsonFields& options, const std::string& key, double low = -kAnyNumber) {
  double value = 0;
  if (options.Find(key) == nullptr) options.Problem(key, "is missing");
  options.Number(key, low, kAnyNumber, value);
  return value;
}

double Positive(JsonFields& options, const std::string& key) {
  return Required(options, key, kAboveZero);
}

void Number(JsonFields& options, const std::string& key, double& out, double low = -kAnyNumber) {
  options.Number(key, low, kAnyNumber, out);
}

LearningRate ReadPiecewise(JsonFields& options) {
  PiecewiseConstantDecay schedule;
  for (auto [key, numbers] :
       {std::pair("boundaries", &schedule.boundaries), std::pair("values", &schedule.values)}) {
    if (options.Find(key) == nullptr) options.Problem(key, "is missing");
    options.Numbers(key, *numbers);
  }
  if (schedule.values.size() != schedule.boundaries.size() + 1) {
    options.Problem("values", "must have one number more than boundaries");
  }
  if (!std::is_sorted(schedule.boundaries.begin(), schedule.boundaries.end())) {
    options.Problem("boundaries", "must ascend");
  }
  return schedule;
}

LearningRate ReadCosine(JsonFields& options) {
  CosineDecay schedule{.initial = Required(options, "initial_learning_rate"),
                       .decay_steps = Positive(options, "decay_steps")};
  Number(options, "alpha", schedule.alpha);
  schedule.warmup = options.Find("warmup_target") != nullptr;
  Number(options, "warmup_target", schedule.warmup_target);
  Number(options, "warmup_steps", schedule.warmup_steps, 0);
  return schedule;
}

// ExponentialDecay and InverseTimeDecay share their options. The rate must not be negative, because
// steps make fractional powers of the rate.
template <class Schedule>
LearningRate ReadRateDecay(JsonFields& options) {
  Schedule schedule{Required(options, "initial_learning_rate"), Positive(options, "decay_steps"),
                    Required(options, "decay_rate", 0)};
  options.Bool("staircase", schedule.staircase);
  return schedule;
}

LearningRate ReadPolynomial(JsonFields& options) {
  PolynomialDecay schedule{Required(options, "initial_learning_rate"),
                           Positive(options, "decay_steps")};
  Number(options, "end_learning_rate", schedule.end);
  Number(options, "power", schedule.power);
  options.Bool("cycle", schedule.cycle);
  return schedule;
}

LearningRate ReadCosineRestarts(JsonFields& options) {
  CosineDecayRestarts schedule{Required(options, "initial_learning_rate"),
                               Positive(options, "first_decay_steps")};
  // Periods that get shorter would come to an end, and Keras to the logarithm of a negative number.
  Number(options, "t_mul", schedule.t_mul, 1);
  Number(options, "m_mul", schedule.m_mul, 0);
  Number(options, "alpha", schedule.alpha);
  return schedule;
}

struct ScheduleEntry {
  std::string_view name;
  LearningRate (*read)(JsonFields& options);
};
constexpr ScheduleEntry kSchedules[] = {
    {"exponential_decay", ReadRateDecay<ExponentialDecay>},
    {"inverse_time_decay", ReadRateDecay<InverseTimeDecay>},
    {"piecewise_constant_decay", ReadPiecewise},
    {"polynomial_decay", ReadPolynomial},
    {"cosine_decay", ReadCosine},
    {"cosine_decay_restarts", ReadCosineRestarts},
};

LearningRate ReadSchedule(const std::string& name, JsonFields& options) {
  std::vector<std::string_view> names;
  for (const ScheduleEntry& entry : kSchedules) {
    if (entry.name == name) return entry.read(options);
    names.push_back(entry.name);
  }
  options.Problem("name", IsNoneOf(name, names));
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

// Each period is t_mul times as long as the last and begins with m_mul times its rate. Keras counts
// periods by a float32 logarithm, which may be off by one at the begin of a period.
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

LearningRate ReadLearningRate(const json& value, const std::string& path, Problems& problems) {
  if (value.is_number()) {
    const double rate = value.get<double>();
    if (!(rate >= 0 && std::isfinite(rate))) {
      problems.Add(path, absl::StrCat("must be finite and not negative, is ", rate));
    }
    return ConstantRate{rate};
  }
  if (!value.is_object() || !value.contains("name") || !value["name"].is_string()) {
    problems.Add(path, absl::StrCat("must be a number or a schedule with \"name\", is ",
                                    JsonExcerpt(value)));
    return ConstantRate{};
  }
  JsonFields options(value, path, problems, JsonFields::Null::kAbsent);
  options.Find("name");
  LearningRate schedule = ReadSchedule(value["name"].get<std::string>(), options);
  options.ReportUnknown();
  return schedule;
}

double RateAt(const LearningRate& schedule, uint64_t step) {
  return std::visit([&](const auto& kind) { return Evaluate(kind, static_cast<double>(step)); },
                    schedule);
}

}  // namespace paracord
