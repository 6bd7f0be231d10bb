#include "common/squares.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/parallel.h"

namespace paracord {

void BlockSquares::Add(std::span<const float> part) {
  std::array<double, 8> sums = sums_;  // a local copy stays in registers
  const auto square = [&](size_t i) {
    return static_cast<double>(part[i]) * static_cast<double>(part[i]);
  };
  const size_t whole = part.size() / sums.size() * sums.size();
  for (size_t i = 0; i < whole; i += sums.size()) {
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += square(i + j);
  }
  for (size_t i = whole; i < part.size(); ++i) sums[i - whole] += square(i);
  sums_ = sums;
}

double BlockSquares::Sum() const { return SumOfBlocks(sums_); }

double SumOfBlocks(std::span<const double> blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), 0.0);
}

double SumOfSquares(std::span<const float> values) {
  std::vector<double> sums((values.size() + kSquaresBlock - 1) / kSquaresBlock);
  ParallelFor(sums.size(), [&](size_t i) {
    const size_t first = i * kSquaresBlock;
    BlockSquares block;
    block.Add(values.subspan(first, std::min(kSquaresBlock, values.size() - first)));
    sums[i] = block.Sum();
  });
  return SumOfBlocks(sums);
}

}  // namespace paracord
