#include "server/optimizer.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/options_reader.h"

namespace paracord {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void ReadSgd(OptionsReader& options, Optimizer& optimizer) {
  optimizer.rule = Optimizer::Rule::kSgd;
  optimizer.momentum = options.Number("momentum", 0);
  options.Range("momentum", optimizer.momentum, 0, std::nextafter(1.0, 2.0));
  optimizer.nesterov = options.Bool("nesterov", false);
  if (optimizer.momentum != 0) optimizer.slots = {{"momentum"}};
}

void ReadAdagrad(OptionsReader& options, Optimizer& optimizer) {
  optimizer.rule = Optimizer::Rule::kAdagrad;
  const double initial = options.Number("initial_accumulator_value", 0.1);
  options.Range("initial_accumulator_value", initial, 0, kInfinity);
  optimizer.epsilon = options.Number("epsilon", 1e-7);
  optimizer.slots = {{"accumulator", static_cast<float>(initial)}};
}

void ReadRmsprop(OptionsReader& options, Optimizer& optimizer) {
  optimizer.rule = Optimizer::Rule::kRmsprop;
  optimizer.rho = options.Number("rho", 0.9);
  options.Range("rho", optimizer.rho, 0, 1);
  optimizer.momentum = options.Number("momentum", 0);
  options.Range("momentum", optimizer.momentum, 0, std::nextafter(1.0, 2.0));
  optimizer.epsilon = options.Number("epsilon", 1e-7);
  optimizer.centered = options.Bool("centered", false);
  optimizer.slots = {{"velocity"}};
  if (optimizer.momentum > 0) optimizer.slots.push_back({"momentum"});
  if (optimizer.centered) optimizer.slots.push_back({"average_gradient"});
}

void ReadAdam(OptionsReader& options, Optimizer& optimizer) {
  optimizer.rule = Optimizer::Rule::kAdam;
  optimizer.beta_1 = options.Number("beta_1", 0.9);
  options.Range("beta_1", optimizer.beta_1, 0, 1);
  optimizer.beta_2 = options.Number("beta_2", 0.999);
  options.Range("beta_2", optimizer.beta_2, 0, 1);
  optimizer.epsilon = options.Number("epsilon", 1e-7);
  optimizer.amsgrad = options.Bool("amsgrad", false);
  optimizer.slots = {{"momentum"}, {"velocity"}};
  if (optimizer.amsgrad) optimizer.slots.push_back({"velocity_hat"});
}

// What every optimizer of Keras has. `decay` is the default of weight_decay.
absl::Status ReadCommon(OptionsReader& options, double rate, std::optional<double> decay,
                        Optimizer& optimizer) {
  const nlohmann::json otherwise = rate;
  const nlohmann::json* learning_rate = options.Find("learning_rate");
  absl::StatusOr<LearningRate> parsed = ParseLearningRate(
      learning_rate != nullptr ? *learning_rate : otherwise, options.PathOf("learning_rate"));
  RETURN_IF_ERROR(parsed.status());
  optimizer.learning_rate = *std::move(parsed);

  optimizer.weight_decay = options.Number("weight_decay");
  if (!optimizer.weight_decay.has_value()) optimizer.weight_decay = decay;
  options.Range("weight_decay", optimizer.weight_decay.value_or(0), 0, kInfinity);
  options.Range("epsilon", optimizer.epsilon, 0, kInfinity);

  optimizer.clipvalue = options.Number("clipvalue");
  const std::optional<double> clipnorm = options.Number("clipnorm");
  const std::optional<double> global_clipnorm = options.Number("global_clipnorm");
  if (optimizer.clipvalue.has_value() + clipnorm.has_value() + global_clipnorm.has_value() > 1) {
    options.Problem("clipvalue", "only one of clipnorm, clipvalue, global_clipnorm can be set");
  }
  for (const std::optional<double>& clip : {optimizer.clipvalue, clipnorm, global_clipnorm}) {
    if (clip.has_value() && !(*clip > 0)) options.Problem("clipvalue", "clipping must be above 0");
  }
  if (options.Bool("use_ema", false)) options.Problem("use_ema", "is not supported");
  options.Find("ema_momentum");
  for (const char* key :
       {"ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps"}) {
    if (options.Find(key) != nullptr) options.Problem(key, "is not supported");
  }
  for (const char* ignored : {"name", "jit_compile"}) options.Find(ignored);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Optimizer> ParseOptimizer(const NamedSpec& spec) {
  OptionsReader options(spec.options, "optimizer");
  Optimizer optimizer;
  double rate = 0.001;
  std::optional<double> decay;
  if (spec.name == "sgd") {
    rate = 0.01;
    ReadSgd(options, optimizer);
  } else if (spec.name == "adagrad") {
    ReadAdagrad(options, optimizer);
  } else if (spec.name == "rmsprop") {
    ReadRmsprop(options, optimizer);
  } else if (spec.name == "adam" || spec.name == "adamw") {
    ReadAdam(options, optimizer);
    if (spec.name == "adamw") decay = 0.004;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.name: no optimizer \"", spec.name,
                     "\"; there are sgd, adagrad, rmsprop, adam, adamw"));
  }
  RETURN_IF_ERROR(ReadCommon(options, rate, decay, optimizer));
  RETURN_IF_ERROR(options.Finish());
  return optimizer;
}

Optimizer OptimizerFor(double moving_average, const Optimizer& optimizer) {
  if (moving_average <= 0) return optimizer;
  // v * keep + o (1 - keep) is SGD: decay takes v (1 - keep) away, the rate is -(1 - keep).
  Optimizer average;
  average.rule = Optimizer::Rule::kSgd;
  average.learning_rate = ConstantRate{moving_average - 1};
  average.weight_decay = -1;
  return average;
}

UpdateScalars ScalarsAt(const Optimizer& optimizer, uint64_t step) {
  const double rate = RateAt(optimizer.learning_rate, step);
  UpdateScalars scalars;
  scalars.rate = static_cast<float>(rate);
  scalars.decay = static_cast<float>(rate * optimizer.weight_decay.value_or(0));
  scalars.clip = static_cast<float>(optimizer.clipvalue.value_or(kInfinity));
  if (optimizer.rule == Optimizer::Rule::kAdam) {
    const double t = static_cast<double>(step) + 1;
    scalars.rate = static_cast<float>(rate * std::sqrt(1 - std::pow(optimizer.beta_2, t)) /
                                      (1 - std::pow(optimizer.beta_1, t)));
  }
  return scalars;
}

}  // namespace paracord
