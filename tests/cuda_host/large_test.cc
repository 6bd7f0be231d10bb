// Sizes beyond a GPU's parallelism. On the processor the sizes are smaller.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <vector>

#include "tests/cuda_host/cuda_under_test.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

TEST_CASE("what is longer than all threads together is done to its end") {
  const int64_t n = OnGpu() ? 50000003 : (1 << 21) + 1000;  // there are at most 2^21 threads
  const auto ops = CudaUnderTest(true);
  ops->Enter();
  Floats x(static_cast<size_t>(n)), back(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000);
  const DeviceArray a = ops->Allocate(n).value(), b = ops->Allocate(n).value();
  ops->Upload(n, x.data(), a.get());
  ops->Fill(n, 1, b.get());
  ops->Affine(n, 2, 3, a.get(), a.get());
  ops->Add(n, a.get(), b.get());
  ops->Download(n, b.get(), back.data());
  REQUIRE(ops->Finish().ok());
  for (float& v : x) v = 2 * v + 4;
  CHECK(back == x);
}

TEST_CASE("each column has its own numbers, whether a thread has one or several of them") {
  const int64_t n = OnGpu() ? 50000000 : (1 << 20) + 70000;  // there are at most 2^20 threads
  // Two numbers of columns: one divides the number of threads, one does not.
  for (const int64_t columns : {64, 48}) {
    INFO(columns << " columns");
    const NormShape s{.by_column = true, .rows = n / columns, .columns = columns};
    const int64_t all = s.rows * columns;
    Floats x(static_cast<size_t>(all)), y = x, mean(static_cast<size_t>(columns));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000);
    for (size_t c = 0; c < mean.size(); ++c) mean[c] = static_cast<float>(c);
    Floats variance = mean, scale = mean, offset = mean;
    for (float& v : variance) v = (v + 1) * (v + 1);
    for (float& v : scale) v += 1;
    for (float& v : offset) v *= 2;
    const auto ops = CudaUnderTest(true);
    ops->Enter();
    const DeviceArray at = ops->Allocate(all).value();
    std::vector<DeviceArray> of;
    for (const Floats* each : {&mean, &variance, &scale, &offset}) {
      of.push_back(ops->Allocate(columns).value());
      ops->Upload(columns, each->data(), of.back().get());
    }
    ops->Upload(all, x.data(), at.get());
    ops->Normalize(s, at.get(), of[0].get(), of[1].get(), of[2].get(), of[3].get(), at.get());
    ops->Download(all, at.get(), y.data());
    REQUIRE(ops->Finish().ok());
    int64_t wrong = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto column = static_cast<float>(i % static_cast<size_t>(columns));
      if (!(std::abs(y[i] - (x[i] + column)) < 0.01f)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a product of more matrices than a dimension of the grid has blocks is whole") {
  const MatmulShape s{.m = 1, .k = 2, .n = 1, .bias = true, .batch = 3 * 65535 + 7};
  const auto ops = CudaUnderTest(true);
  ops->Enter();
  Floats x(static_cast<size_t>(2 * s.batch)), y(static_cast<size_t>(s.batch)), right = y;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 999);
  for (size_t i = 0; i < y.size(); ++i)
    right[i] = x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1] + 5;
  const DeviceArray a = ops->Allocate(2 * s.batch).value(), bias = ops->Allocate(1).value(),
                    c = ops->Allocate(s.batch).value();
  const auto product = ops->MakeMatmul(s).value();
  const float five = 5;
  ops->Upload(2 * s.batch, x.data(), a.get());
  ops->Upload(1, &five, bias.get());
  product->Run(a.get(), a.get(), bias.get(), c.get());
  ops->Download(s.batch, c.get(), y.data());
  REQUIRE(ops->Finish().ok());
  CHECK(y == right);
}

// Sums `parts` as Ops::ScatterAdd specifies: of n > 1 parts, the first 2^k, for the largest 2^k
// below n, and the rest, each by halves.
float SumByHalves(std::span<const float> parts) {
  if (parts.empty()) return 0;
  if (parts.size() == 1) return parts[0];
  const size_t half = std::bit_floor(parts.size() - 1);
  return SumByHalves(parts.first(half)) + SumByHalves(parts.subspan(half));
}

// The ids resemble padding. Sums must be equal to the bit, however many elements are added at once.
TEST_CASE("a row that most places are added to has their sum by halves, as rows of few have") {
  const int64_t count = OnGpu() ? 100000 : 3000, width = 3, rows = 60;
  Floats ids(static_cast<size_t>(count), 0), dy(static_cast<size_t>(count * width));
  size_t at = 1;
  // Row r occurs r times, except 50, which does not occur.
  for (int64_t row = 1; row < rows; ++row) {
    for (int64_t i = 0; i < row && row != 50; ++i)
      ids[7 * at++ % ids.size()] = static_cast<float>(row);
  }
  ids.back() = -1;
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = std::sin(static_cast<float>(i));
  std::vector<Floats> parts(static_cast<size_t>(rows * width));
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) {
      parts[static_cast<size_t>(ids[i]) * 3 + c].push_back(dy[i * 3 + c]);
    }
  }
  Floats sums(parts.size()), got(parts.size());
  std::ranges::transform(parts, sums.begin(), SumByHalves);
  const auto ops = CudaUnderTest(true);
  ops->Enter();
  const DeviceArray a = ops->Allocate(count).value(), b = ops->Allocate(count * width).value(),
                    table = ops->Allocate(rows * width).value();
  ops->Upload(count, ids.data(), a.get());
  ops->Upload(count * width, dy.data(), b.get());
  ops->ScatterAdd(count, width, rows, a.get(), b.get(), table.get());
  ops->Download(rows * width, table.get(), got.data());
  REQUIRE(ops->Finish().ok());
  CHECK(got == sums);
}

TEST_CASE("what is awaited is there, however long the device takes, in a graph too") {
  const int64_t n = OnGpu() ? 50000000 : 1000;
  constexpr int kTimes = 40;
  const auto ops = CudaUnderTest(true);
  ops->Enter();
  const DeviceArray seed = ops->Allocate(1).value(), all = ops->Allocate(n).value();
  const std::optional<int64_t> launched = GraphLaunches();
  for (int round = 0; round < 10; ++round) {
    INFO("round " << round);
    const float value = static_cast<float>(round);
    float last = -1;
    ops->Upload(1, &value, seed.get());
    ops->Copy({{n}, {0}, {}, {1}}, false, seed.get(), all.get());
    for (int i = 0; i < kTimes; ++i) ops->Affine(n, 1, 1, all.get(), all.get());
    ops->DownloadAwaited(1, all.get() + n - 1, &last, 3);
    CHECK(ops->AwaitDownload() == std::optional<size_t>(3));
    CHECK(last == value + kTimes);
    REQUIRE(ops->Finish().ok());
  }
  if (launched.has_value()) CHECK(*GraphLaunches() - *launched == 8);
}

}  // namespace
}  // namespace paracord
