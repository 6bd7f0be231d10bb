#include "worker/gradient_clip.h"

#include <algorithm>
#include <cmath>

namespace paracord {
namespace {

double SumOfSquares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

// g * clip / max(norm, clip)
void Scale(std::span<float> values, double clip, double norm) {
  if (norm <= clip) return;
  const float factor = static_cast<float>(clip / norm);
  for (float& value : values) value *= factor;
}

double Option(const NamedSpec& optimizer, const char* name) {
  const auto it = optimizer.options.find(name);
  return it != optimizer.options.end() && it->is_number() ? it->get<double>() : 0;
}

}  // namespace

void GradientClip::Apply(MutableTensors gradients) const {
  if (clipnorm > 0) {
    for (const std::span<float> gradient : gradients) {
      Scale(gradient, clipnorm, std::sqrt(SumOfSquares(gradient)));
    }
  }
  if (global_clipnorm <= 0) return;
  double sum = 0;
  for (const std::span<float> gradient : gradients) sum += SumOfSquares(gradient);
  for (const std::span<float> gradient : gradients) {
    Scale(gradient, global_clipnorm, std::sqrt(sum));
  }
}

GradientClip ReadGradientClip(const NamedSpec& optimizer) {
  return {Option(optimizer, "clipnorm"), Option(optimizer, "global_clipnorm")};
}

}  // namespace paracord
