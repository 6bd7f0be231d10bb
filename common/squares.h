// Sums of squares, for norms, in double precision. The elements of a tensor are divided into blocks
// of a fixed size, and each block is summed separately. Hence the bits of a result depend neither
// on the number of threads nor on how many elements are read at a time.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace paracord {

inline constexpr size_t kSquaresBlock = 64 << 10;  // the number of elements in a block

// Sums the squares of a block read in parts. Each part but the last has a multiple of 8.
class BlockSquares {
 public:
  void Add(std::span<const float> part);
  double Sum() const;

 private:
  // Eight independent sums, so that an addition need not wait for the one before.
  std::array<double, 8> sums_{};
};

// Returns the total of the sums of a tensor's blocks, added in the order of the blocks.
double SumOfBlocks(std::span<const double> blocks);

// Returns the sum of squares of a tensor. Several threads sum the blocks (common/parallel.h).
double SumOfSquares(std::span<const float> values);

}  // namespace paracord
