// Sums of lanes have the bits of a plain tree, dense or of rows.
#include "exchange/lane_sum.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "common/counter_random.h"

namespace paracord {
namespace {

constexpr uint64_t kDim = 3;
using Floats = std::vector<float>;

std::vector<uint32_t> BitsOf(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

Floats Draw(uint64_t key, size_t count) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(static_cast<float>(RandomNormal(key, i)), static_cast<int>(i % 40) - 20);
  }
  return values;
}

TEST_CASE("a run of lanes is a power of two that divides the first and ends within the round") {
  CHECK(IsLaneRun(0, 1, 1));
  CHECK(IsLaneRun(4, 4, 8));
  CHECK(IsLaneRun(6, 2, 9));
  CHECK(IsLaneRun(8, 1, 9));
  CHECK_FALSE(IsLaneRun(0, 0, 8));
  CHECK_FALSE(IsLaneRun(0, 3, 8));
  CHECK_FALSE(IsLaneRun(2, 4, 8));
  CHECK_FALSE(IsLaneRun(8, 2, 9));
  CHECK_FALSE(IsLaneRun(9, 1, 9));
  CHECK_FALSE(IsLaneRun(1u << 31, 1u << 31, 8));
  CHECK_FALSE(IsLaneRun(4, UINT32_MAX, 8));
}

TEST_CASE("a whole batch is neither scaled for the sum nor for a mean of one lane") {
  CHECK(LaneFactor(64, 64) == 1);
  CHECK(LaneFactor(16, 64) == 0.25f);
  CHECK(LaneFactor(1, 3) == 1.0f / 3.0f);
  CHECK(MeanFactor(64, 64) == 1);
  CHECK(MeanFactor(64, 256) == 0.25f);
  CHECK(MeanFactor(64, 208) == static_cast<float>(64.0 / 208.0));
  Floats values = {1, std::numeric_limits<float>::denorm_min(), -0.0f};
  const std::vector<uint32_t> bits = BitsOf(values);
  MultiplyBy(1, values);
  CHECK(BitsOf(values) == bits);
}

TEST_CASE("arrays of every size are added and multiplied as single floats are") {
  for (const size_t size : {0, 1, 7, 8, 63, 64, 65, 1000}) {
    Floats sum = Draw(1, size), expected = sum;
    const Floats other = Draw(2, size);
    for (size_t i = 0; i < size; ++i) expected[i] = (expected[i] + other[i]) * 0.3f;
    AddTo(sum, other);
    MultiplyBy(0.3f, sum);
    CHECK(BitsOf(sum) == BitsOf(expected));
  }
}

TEST_CASE("which side of a sum is the left one changes no bit") {
  Floats a = Draw(3, 4000), b = Draw(4, 4000);
  a[0] = 0.0f, b[0] = -0.0f;
  a[1] = std::numeric_limits<float>::infinity(), b[1] = 1;
  a[2] = std::numeric_limits<float>::max(), b[2] = a[2];
  Floats left = a, right = b;
  AddTo(left, b);
  AddTo(right, a);
  CHECK(BitsOf(left) == BitsOf(right));
}

// The rows of a lane, or of a node of the tree; nullopt: none.
using PlainRows = std::optional<std::map<uint64_t, Floats>>;

PlainRows PlainSum(const std::vector<PlainRows>& lanes, size_t first, size_t count) {
  if (count == 1) return first < lanes.size() ? lanes[first] : std::nullopt;
  const PlainRows left = PlainSum(lanes, first, count / 2);
  const PlainRows right = PlainSum(lanes, first + count / 2, count / 2);
  if (!left.has_value() || !right.has_value()) return left.has_value() ? left : right;
  std::map<uint64_t, Floats> sum = *left;
  for (const auto& [id, values] : *right) {
    const auto [row, only_right] = sum.try_emplace(id, values);
    for (size_t i = 0; !only_right && i < kDim; ++i) row->second[i] = row->second[i] + values[i];
  }
  return sum;
}

SummedRows Flat(const PlainRows& rows) {
  SummedRows flat;
  if (!rows.has_value()) return flat;
  for (const auto& [id, values] : *rows) {
    flat.ids.push_back(id);
    flat.values.insert(flat.values.end(), values.begin(), values.end());
  }
  return flat;
}

// Sums with the product's functions. An odd node's children are swapped.
SummedRows Sum(const std::vector<PlainRows>& lanes, size_t first, size_t count) {
  if (count == 1) return Flat(first < lanes.size() ? lanes[first] : std::nullopt);
  SummedRows sum = Sum(lanes, first, count / 2);
  SummedRows other = Sum(lanes, first + count / 2, count / 2);
  if (first / count % 2 == 1) std::swap(sum, other);
  AddRows(other.ids, other.values, kDim, sum);
  return sum;
}

TEST_CASE("rows of lanes have the sum of a plain tree, merged by ascending ids") {
  uint64_t draw = 0;
  for (int round = 0; round < 400; ++round) {
    const size_t lanes = RandomBits(5, draw++) % 9 + 1;
    const uint64_t range = RandomBits(5, draw++) % 40 + 1;
    std::vector<PlainRows> rows(lanes);
    for (PlainRows& lane : rows) {
      if (RandomBits(5, draw++) % 5 == 0) continue;
      lane.emplace();
      for (uint64_t i = RandomBits(5, draw++) % 20; i > 0; --i) {
        const uint64_t id = RandomBits(5, draw++) % range;
        (*lane)[id == 0 ? UINT64_MAX : id] = Draw(draw++, kDim);
      }
    }
    const size_t padded = std::bit_ceil(lanes);
    const SummedRows expected = Flat(PlainSum(rows, 0, padded));
    const SummedRows sum = Sum(rows, 0, padded);
    CAPTURE(round, lanes);
    REQUIRE(sum.ids == expected.ids);
    REQUIRE(BitsOf(sum.values) == BitsOf(expected.values));
  }
}

TEST_CASE("rows are added in place, with memory for new ids alone") {
  SummedRows sum{{2, 5, 9}, Floats(9, 1)};
  sum.ids.reserve(5);
  sum.values.reserve(15);
  const float* const at = sum.values.data();
  AddRows(RowIds{1, 5, 9}, Floats(9, 2), kDim, sum);
  CHECK(sum.ids == RowIds{1, 2, 5, 9});
  CHECK(sum.values == Floats{2, 2, 2, 1, 1, 1, 3, 3, 3, 3, 3, 3});
  AddRows({}, {}, kDim, sum);
  AddRows(RowIds{2}, Floats(3, 1), kDim, sum);
  CHECK(sum.ids.size() == 4);
  CHECK(sum.values[3] == 2);
  CHECK(sum.values.data() == at);
}

TEST_CASE("rows are added to all rows of a table at the places of their ids") {
  Floats all(4 * kDim, 1);
  AddRowsToAll(RowIds{100, 102}, Floats(6, 2), kDim, 100, all);
  CHECK(all == Floats{3, 3, 3, 1, 1, 1, 3, 3, 3, 1, 1, 1});
  AddRowsToAll({}, {}, kDim, 100, all);
  CHECK(all[0] == 3);
}

}  // namespace
}  // namespace paracord
