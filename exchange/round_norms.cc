#include "exchange/round_norms.h"

#include <algorithm>

namespace paracord {

std::vector<double> SquaresOfVariables(std::span<const PartitionSquares> squares,
                                       uint32_t variables) {
  std::vector<PartitionSquares> ordered(squares.begin(), squares.end());
  std::ranges::sort(ordered, {}, &PartitionSquares::partition);
  std::vector<double> sums(variables);
  for (const PartitionSquares& of : ordered) {
    if (of.variable >= variables) continue;
    sums[of.variable] = std::min(sums[of.variable] + of.squares, kSquaresMax);
  }
  return sums;
}

}  // namespace paracord
