// Sums of squares, of which norms are made. They are taken in double and in blocks of a fixed size,
// each by itself, so that the bits depend neither on threads nor on how the elements are read.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace paracord {

inline constexpr size_t kSquaresBlock = 64 << 10;  // elements

// The sum over one block that is read in parts. All parts but the last have a multiple of 8
// elements.
class BlockSquares {
 public:
  void Add(std::span<const float> part);
  double Sum() const;

 private:
  // Eight sums, so that additions need not wait for each other.
  std::array<double, 8> sums_{};
};

// Adds up the sums of a tensor's blocks, in their order.
double SumOfBlocks(std::span<const double> blocks);

// The sum of squares of a tensor, whose blocks are added up in parallel.
double SumOfSquares(std::span<const float> values);

}  // namespace paracord
