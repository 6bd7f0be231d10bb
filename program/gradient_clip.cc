#include "program/gradient_clip.h"

#include <algorithm>

#include "common/parallel.h"
#include "common/squares.h"

namespace paracord {
namespace {

constexpr size_t kAtOnce = 64 << 10;  // elements per parallel task

// Calls body(first, count) for ranges covering all elements, in parallel.
template <class Body>
void InParts(size_t size, const Body& body) {
  ParallelFor((size + kAtOnce - 1) / kAtOnce,
              [&](size_t part) { body(part * kAtOnce, std::min(kAtOnce, size - part * kAtOnce)); });
}

void Multiply(std::span<float> values, float factor) {
  if (factor == 1) return;
  InParts(values.size(), [&](size_t first, size_t count) {
    for (float& value : values.subspan(first, count)) value *= factor;
  });
}

}  // namespace

void GradientClip::Apply(MutableTensors gradients) const {
  const auto clipped = [&](size_t i) { return i >= exempt.size() || !exempt[i]; };
  for (size_t i = 0; clipnorm > 0 && i < gradients.size(); ++i) {
    if (!clipped(i)) continue;
    Multiply(gradients[i], ClipFactor(clipnorm, SumOfSquares(gradients[i])));
  }
  if (global_clipnorm <= 0) return;
  double sum = 0;
  for (size_t i = 0; i < gradients.size(); ++i) sum += clipped(i) ? SumOfSquares(gradients[i]) : 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (clipped(i)) Multiply(gradients[i], ClipFactor(global_clipnorm, sum));
  }
}

GradientClip ReadGradientClip(const NamedSpec& optimizer, std::span<const VariableSpec> variables) {
  GradientClip clip{ReadNormClip(optimizer), {}};
  for (const VariableSpec& variable : variables) {
    clip.exempt.push_back(variable.moving_average() > 0);
  }
  return clip;
}

}  // namespace paracord
