// A sum of squares has equal bits for any chunking of the elements and any number of threads.
#include "common/squares.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/counter_random.h"
#include "common/parallel.h"

namespace paracord {
namespace {

std::vector<float> NormalValues(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(RandomNormal(11, i));
  return values;
}

TEST_CASE("a sum of squares is that of all elements") {
  CHECK(SumOfSquares({}) == 0);
  for (const size_t size : {1, 7, 8, 9, 65536, 65537, 200003}) {
    std::vector<float> values(size);
    double sum = 0;
    for (size_t i = 0; i < size; ++i) {
      values[i] = static_cast<float>(i % 97) - 48;
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    CHECK(SumOfSquares(values) == sum);
  }
}

TEST_CASE("the bits of a sum of squares depend on no number of threads") {
  const std::vector<float> values = NormalValues(5 * kSquaresBlock + 4099);
  const double alone = SumOfSquares(values);
  SetParallelThreads(3);
  CHECK(SumOfSquares(values) == alone);
  SetParallelThreads(1);
}

TEST_CASE("a tensor that is read in parts of blocks has the same sum of squares") {
  const std::vector<float> values = NormalValues(3 * kSquaresBlock + 4099);
  for (const size_t some : {8, 4096, 24}) {
    std::vector<double> blocks;
    for (size_t first = 0; first < values.size(); first += kSquaresBlock) {
      const size_t end = std::min(first + kSquaresBlock, values.size());
      BlockSquares block;
      for (size_t at = first; at < end; at += some) {
        block.Add(std::span(values).subspan(at, std::min(some, end - at)));
      }
      blocks.push_back(block.Sum());
    }
    CHECK(SumOfBlocks(blocks) == SumOfSquares(values));
  }
}

}  // namespace
}  // namespace paracord
