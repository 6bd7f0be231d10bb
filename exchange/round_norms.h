// The norms by which a round's mean is clipped, where the partitions of a variable lie with several
// ps: each ps tells the sum of squares of each of its partitions' means (common/squares.h), a
// worker adds them up for each variable, and every ps clips by the same numbers. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace paracord {

// Stands for the squares of a mean that is not finite, and for sums that are greater: no norm that
// travels is infinite. Squares of float32 that are finite never come near.
inline constexpr double kSquaresMax = std::numeric_limits<double>::max();

// The sum of squares of one partition's mean.
struct PartitionSquares {
  uint32_t partition = 0;
  uint32_t variable = 0;
  double squares = 0;
};

// Adds up the squares of each variable by ascending partitions, so that their order in `squares`,
// which is that of answers, changes no bit. `variables` is how many there are; others are ignored.
std::vector<double> SquaresOfVariables(std::span<const PartitionSquares> squares,
                                       uint32_t variables);

}  // namespace paracord
