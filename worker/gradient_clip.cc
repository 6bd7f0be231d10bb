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
  const auto clipped = [&](size_t i) { return i >= exempt.size() || !exempt[i]; };
  for (size_t i = 0; clipnorm > 0 && i < gradients.size(); ++i) {
    if (clipped(i)) Scale(gradients[i], clipnorm, std::sqrt(SumOfSquares(gradients[i])));
  }
  if (global_clipnorm <= 0) return;
  double sum = 0;
  for (size_t i = 0; i < gradients.size(); ++i) sum += clipped(i) ? SumOfSquares(gradients[i]) : 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (clipped(i)) Scale(gradients[i], global_clipnorm, std::sqrt(sum));
  }
}

GradientClip ReadGradientClip(const NamedSpec& optimizer, std::span<const VariableSpec> variables) {
  GradientClip clip{Option(optimizer, "clipnorm"), Option(optimizer, "global_clipnorm"), {}};
  for (const VariableSpec& variable : variables) {
    clip.exempt.push_back(variable.moving_average() > 0);
  }
  return clip;
}

}  // namespace paracord
