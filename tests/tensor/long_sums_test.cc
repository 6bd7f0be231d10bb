// Float32 sums over many or long rows, of numbers whose naive sum would lose digits.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kMany = 1'000'000;

// Positive numbers of a little over 1000, with a spread of 1.
Floats Numbers() {
  Floats x(static_cast<size_t>(kMany));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 1000.3f + static_cast<float>(i * 7919 % 1001) / 500 - 1;
  }
  return x;
}

struct Exact {
  double sum = 0, mean = 0, variance = 0;
};
Exact Of(const Floats& x) {
  Exact exact;
  for (const float v : x) exact.sum += static_cast<double>(v);
  exact.mean = exact.sum / static_cast<double>(x.size());
  for (const float v : x) {
    const double off = static_cast<double>(v) - exact.mean;
    exact.variance += off * off / static_cast<double>(x.size());
  }
  return exact;
}

TEST_CASE("mean and variance of a million numbers have float32's digits") {
  const auto ops = MakeCpuOps(2);
  const Floats x = Numbers();
  const Exact exact = Of(x);
  for (const bool by_column : {false, true}) {
    NormShape shape;
    shape.by_column = by_column;
    shape.rows = by_column ? kMany : 1;
    shape.columns = by_column ? 1 : kMany;
    float mean = 0, variance = 0;
    ops->Moments(shape, x.data(), &mean, &variance);
    CHECK(static_cast<double>(mean) == Approx(exact.mean).epsilon(1e-6));
    CHECK(static_cast<double>(variance) == Approx(exact.variance).epsilon(1e-4));
  }
}

TEST_CASE("the sum of a million rows has float32's digits") {
  const auto ops = MakeCpuOps(2);
  const Floats x = Numbers();
  float sum = 0;
  ops->SumRows(kMany, 1, x.data(), &sum);
  CHECK(static_cast<double>(sum) == Approx(Of(x).sum).epsilon(1e-6));
}

TEST_CASE("rows of a table that many places name are added by halves, in their order") {
  const auto ops = MakeCpuOps(2);
  const Floats x = Numbers();
  // Every third index is row 1, the rest row 2; the last 5 are row 0, and one is no row.
  Floats ids(x.size()), sums(4 * 2, 9);
  double of_one = 0;
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i % 3 == 0 ? 1.f : 2.f;
  for (size_t i = ids.size() / 2 - 6; i < ids.size() / 2; ++i) ids[i] = 0;
  ids[ids.size() / 2 - 1] = -1;
  for (size_t i = 0; i < ids.size() / 2; ++i) {
    if (ids[i] == 1) of_one += static_cast<double>(x[2 * i + 1]);
  }
  const auto count = static_cast<int64_t>(x.size() / 2);
  ops->ScatterAdd(count, 2, 4, ids.data(), x.data(), sums.data());
  CHECK(static_cast<double>(sums[3]) == Approx(of_one).epsilon(3e-7));
  const float* const five = x.data() + 2 * (count - 6);
  for (size_t c = 0; c < 2; ++c) {
    CHECK(sums[c] == ((five[c] + five[2 + c]) + (five[4 + c] + five[6 + c])) + five[8 + c]);
    CHECK(sums[6 + c] == 0);
  }
}

TEST_CASE("the sum along a long axis that is not the last has float32's digits") {
  const auto ops = MakeCpuOps(2);
  const Floats x = Numbers();
  Floats wanted(4), sums(4, 1e6f);
  for (size_t c = 0; c < 4; ++c) {
    double sum = static_cast<double>(sums[c]);
    for (size_t i = c; i < x.size(); i += 4) sum += static_cast<double>(x[i]);
    wanted[c] = static_cast<float>(sum);
  }
  // Sums (500, 500, 4) into (4), backwards.
  ops->Copy({{500, 500, 4}, {2000, 4, 1}, {}, {0, 0, -1}}, true, x.data(), sums.data() + 3);
  std::swap(sums[0], sums[3]);
  std::swap(sums[1], sums[2]);
  for (size_t c = 0; c < 4; ++c) CHECK(sums[c] == Approx(wanted[c]).epsilon(1e-6));
}

TEST_CASE("gradients of a normalisation over a million numbers have float32's digits") {
  const auto ops = MakeCpuOps(2);
  const Floats dy = Numbers();
  const double sum = Of(dy).sum;
  Floats ones(dy.size());
  for (size_t i = 0; i < ones.size(); ++i) ones[i] = i % 2 == 0 ? 1.f : -1.f;
  SECTION("of the offset, over many rows") {
    const Floats zeros(dy.size()), all(dy.size(), 1);
    NormShape shape;
    shape.rows = kMany;
    shape.columns = 1;
    shape.epsilon = 0;
    float dscale = 0, doffset = 0;
    ops->NormalizeBackward(shape, false, all.data(), zeros.data(), all.data(), nullptr, nullptr,
                           dy.data(), nullptr, &dscale, &doffset);
    CHECK(static_cast<double>(doffset) == Approx(sum).epsilon(1e-6));
    CHECK(static_cast<double>(dscale) == Approx(sum).epsilon(1e-6));
  }
  SECTION("of the input, along a long row") {
    NormShape shape;
    shape.rows = 1;
    shape.columns = kMany;
    shape.epsilon = 0;
    const float mean = 0, variance = 1;
    Floats dx(dy.size());
    ops->NormalizeBackward(shape, false, ones.data(), &mean, &variance, nullptr, nullptr, dy.data(),
                           dx.data(), nullptr, nullptr);
    double off = 0;
    for (const float d : dx) off += static_cast<double>(d) / static_cast<double>(kMany);
    CHECK(std::abs(off) < 1e-3);  // the mean removes the common part
  }
}

}  // namespace
}  // namespace paracord
