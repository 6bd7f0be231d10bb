// Norms over the partitions of several ps have the same bits in any order of answers.
#include "exchange/round_norms.h"

#include <algorithm>
#include <catch2/catch.hpp>

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
}

}  // namespace
}  // namespace paracord
