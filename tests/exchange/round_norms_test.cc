// Norms over the partitions of several ps have the same bits in any order of answers.
#include "exchange/round_norms.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace paracord {
namespace {

TEST_CASE("squares are added up for each variable by ascending partitions, in whatever order") {
  // 1e16 + 1 + 1 is 1e16 in double, and 1 + 1 + 1e16 is not.
  std::vector<PartitionSquares> squares = {{0, 0, 1e16}, {1, 0, 1}, {2, 0, 1},
                                           {3, 1, 1},    {4, 1, 1}, {5, 1, 1e16}};
  const auto by_partition = [](const PartitionSquares& a, const PartitionSquares& b) {
    return a.partition < b.partition;
  };
  do {
    const std::vector<double> sums = SquaresOfVariables(squares, 3);
    REQUIRE(sums == std::vector<double>{1e16, 1e16 + 2, 0});
  } while (std::next_permutation(squares.begin(), squares.end(), by_partition));
  CHECK(SquaresOfVariables({}, 2) == std::vector<double>{0, 0});
}

TEST_CASE("squares of a variable that there is not are ignored") {
  const std::vector<PartitionSquares> squares = {{0, 7, 4}, {1, 0, 9}};
  CHECK(SquaresOfVariables(squares, 1) == std::vector<double>{9});
}

TEST_CASE("sums of squares stay finite, whatever is added up") {
  const std::vector<PartitionSquares> squares = {{0, 0, kSquaresMax}, {1, 0, kSquaresMax}};
  CHECK(SquaresOfVariables(squares, 1) == std::vector<double>{kSquaresMax});
  CHECK(ClipFactor(1, kSquaresMax) == 0);
}

TEST_CASE("a factor clips to the norm, and leaves what is within it as it is") {
  CHECK(ClipFactor(2.5, 25) == 0.5f);
  CHECK(ClipFactor(5, 25) == 1);
  CHECK(ClipFactor(6, 25) == 1);
  CHECK(ClipFactor(1, 0) == 1);
  CHECK(ClipFactor(1, std::numeric_limits<double>::infinity()) == 0);
  CHECK(std::isnan(ClipFactor(1, std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace paracord
