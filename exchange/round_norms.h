// Clipping of a round's mean gradient by the norm of a variable whose partitions are on several ps.
// For each of its partitions a ps reports the sum of squares of the mean's elements
// (common/squares.h), a worker adds up the sums for each variable, and every ps clips by the same
// totals. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace paracord {

// The greatest sum of squares, so that no infinity is sent. It stands for a mean that is not
// finite; sums of squares of finite float32 values never come near.
inline constexpr double kSquaresMax = std::numeric_limits<double>::max();

// The sum of squares of the elements of a partition's mean.
struct PartitionSquares {
  uint32_t partition = 0;
  uint32_t variable = 0;
  double squares = 0;
};

// Returns for each of `variables` variables the sum of `squares`, at most kSquaresMax. Adds in
// ascending order of partitions, so that the order in which ps answer changes no bit. Ignores
// squares of variables beyond these.
std::vector<double> SquaresOfVariables(std::span<const PartitionSquares> squares,
                                       uint32_t variables);

}  // namespace paracord
