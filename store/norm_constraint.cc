#include "store/norm_constraint.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace paracord {
namespace {

constexpr double kEpsilon = 1e-7;  // keras.config.epsilon()

// Calls `visit(value, group)` for each value in order. `strides` say, by axis, how far apart in the
// list of groups two values are that are neighbours along it: 0 along an axis of the norm.
template <class Visit>
void ForEach(std::span<const uint64_t> shape, std::span<const uint64_t> strides,
             std::span<const std::span<float>> chunks, const Visit& visit) {
  std::vector<uint64_t> at(shape.size(), 0);
  uint64_t group = 0;
  for (const std::span<float> chunk : chunks) {
    for (float& value : chunk) {
      visit(value, group);
      for (size_t d = shape.size(); d-- > 0;) {
        group += strides[d];
        if (++at[d] < shape[d]) break;
        group -= strides[d] * shape[d];
        at[d] = 0;
      }
    }
  }
}

}  // namespace

void ScaleToNorm(const NormConstraint& norm, std::span<const uint64_t> shape,
                 std::span<const std::span<float>> chunks) {
  std::vector<uint64_t> strides(shape.size());
  uint64_t groups = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (std::find(norm.axes().begin(), norm.axes().end(), d) != norm.axes().end()) continue;
    strides[d] = groups;
    groups *= shape[d];
  }
  std::vector<double> scales(groups, 0);
  ForEach(shape, strides, chunks, [&](float value, uint64_t group) {
    scales[group] += static_cast<double>(value) * static_cast<double>(value);
  });
  for (double& scale : scales) {
    const double length = std::sqrt(scale);
    const double wanted =
        norm.rate() * std::clamp(length, norm.least(), norm.most()) + (1 - norm.rate()) * length;
    scale = wanted / (length + kEpsilon);
  }
  ForEach(shape, strides, chunks, [&](float& value, uint64_t group) {
    value = static_cast<float>(static_cast<double>(value) * scales[group]);
  });
}

}  // namespace paracord
