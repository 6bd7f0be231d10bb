#include "store/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "storage/checkpoint.h"

namespace paracord {
namespace {

// Keras multiplies Nadam's momenta u_i = beta_1 (1 - 0.96^i / 2) from step to step. The product
// depends only on the step, so partitions need not store it: beta_1^t times the product here, whose
// factors are 1 in double from 0.96^900 on.
double NadamProduct(uint64_t steps) {
  static const std::vector<double> products = [] {
    std::vector<double> all = {1};
    double power = 1;
    while (all.size() <= 1000) {
      power *= 0.96;
      all.push_back(all.back() * (1 - 0.5 * power));
    }
    return all;
  }();
  return products[std::min<uint64_t>(steps, products.size() - 1)];
}

// `t` counts from 1.
void NadamScalars(const Optimizer& optimizer, double rate, uint64_t t, UpdateScalars& scalars) {
  const auto momentum = [&](double i) { return optimizer.beta_1 * (1 - 0.5 * std::pow(0.96, i)); };
  const double now = static_cast<double>(t);
  const double next = momentum(now + 1);
  const double product = std::pow(optimizer.beta_1, now) * NadamProduct(t);
  scalars.rate = static_cast<float>(rate * (1 - momentum(now)) / (1 - product));
  scalars.momentum_rate = static_cast<float>(rate * next / (1 - product * next));
  scalars.velocity_scale = static_cast<float>(1 / (1 - std::pow(optimizer.beta_2, now)));
}

}  // namespace

bool ZeroGradientChangesNothing(const Optimizer& optimizer) {
  const bool plain_sgd = optimizer.rule == Optimizer::Rule::kSgd && optimizer.momentum == 0;
  return (plain_sgd || optimizer.rule == Optimizer::Rule::kAdagrad) && !optimizer.use_ema &&
         !optimizer.non_neg && !optimizer.norm.has_value() &&
         optimizer.weight_decay.value_or(0) == 0;
}

std::vector<SlotSpec> StoredSlots(const Optimizer& optimizer) {
  std::vector<SlotSpec> slots = optimizer.slots;
  if (optimizer.lazy) slots.push_back({.name = kStepsSlot, .of_rows = true});
  return slots;
}

uint64_t SlotElements(const SlotSpec& slot, uint64_t row_elements) {
  return slot.of_rows ? 1 : row_elements;
}

uint64_t RowNumbers(const Optimizer& optimizer, uint64_t row_elements) {
  uint64_t numbers = row_elements;
  for (const SlotSpec& slot : optimizer.slots) numbers += SlotElements(slot, row_elements);
  return numbers;
}

UpdateScalars ScalarsAt(const Optimizer& optimizer, uint64_t step) {
  return LazyScalarsAt(optimizer, step, step);
}

UpdateScalars LazyScalarsAt(const Optimizer& optimizer, uint64_t step, uint64_t row_steps) {
  const double rate = RateAt(optimizer.learning_rate, step);
  const double t = static_cast<double>(row_steps) + 1;
  UpdateScalars scalars;
  scalars.rate = static_cast<float>(rate);
  scalars.decay = static_cast<float>(rate * optimizer.weight_decay.value_or(0));
  scalars.clip =
      static_cast<float>(optimizer.clipvalue.value_or(std::numeric_limits<double>::infinity()));
  switch (optimizer.rule) {
    case Optimizer::Rule::kAdam:
      scalars.rate = static_cast<float>(rate * std::sqrt(1 - std::pow(optimizer.beta_2, t)) /
                                        (1 - std::pow(optimizer.beta_1, t)));
      break;
    case Optimizer::Rule::kAdamax:
      scalars.rate = static_cast<float>(rate / (1 - std::pow(optimizer.beta_1, t)));
      break;
    case Optimizer::Rule::kNadam:
      NadamScalars(optimizer, rate, row_steps + 1, scalars);
      break;
    case Optimizer::Rule::kFtrl:
      scalars.twice_l2 = static_cast<float>(2 * optimizer.l2 + optimizer.beta / rate);
      break;
    default:
      break;
  }
  if (optimizer.use_ema) {
    // Keras 3 starts the average with the values after the first step.
    scalars.average_keep = row_steps == 0 ? 0 : static_cast<float>(optimizer.ema_momentum);
    const uint64_t every = optimizer.ema_overwrite_frequency;
    scalars.overwrite = every != 0 && (row_steps + 1) % every == 0;
  }
  return scalars;
}

}  // namespace paracord
