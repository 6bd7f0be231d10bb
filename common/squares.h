// Sums of squares, for norms, in double precision. A tensor is cut into blocks of a fixed size,
// which are summed separately: the bits depend neither on threads nor on how the elements are read.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace paracord {

inline constexpr size_t kSquaresBlock = 64 << 10;  // elements of a block

// Sums the squares of a block read in parts. All parts but the last have a multiple of 8 elements.
class BlockSquares {
 public:
  void Add(std::span<const float> part);
  double Sum() const;

 private:
  // Eight independent sums, to keep additions from waiting for each other.
  std::array<double, 8> sums_{};
};

// Adds up the sums of a tensor's blocks, in the order of the blocks.
double SumOfBlocks(std::span<const double> blocks);

// Returns the sum of squares of a tensor, whose blocks are summed in parallel.
double SumOfSquares(std::span<const float> values);

}  // namespace paracord
