#include "exchange/round_norms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace paracord {

std::vector<double> SquaresOfVariables(std::span<const PartitionSquares> squares,
                                       uint32_t variables) {
  std::vector<PartitionSquares> ordered(squares.begin(), squares.end());
  std::ranges::sort(ordered, {}, &PartitionSquares::partition);
  std::vector<double> sums(variables);
  for (const PartitionSquares& of : ordered) {
    if (of.variable < variables) sums[of.variable] += of.squares;
  }
  return sums;
}

float ClipFactor(double clip, double squares) {
  const double norm = std::sqrt(squares);
  return norm <= clip ? 1 : static_cast<float>(clip / norm);
}

float ClipFactorOf(const NormClip& clip, std::span<const double> squares, uint32_t variable) {
  if (clip.clipnorm > 0) return ClipFactor(clip.clipnorm, squares[variable]);
  return ClipFactor(clip.global_clipnorm, std::accumulate(squares.begin(), squares.end(), 0.0));
}

}  // namespace paracord
