#include "tensor/vector_math.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace paracord::formulas {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The error in units of the last place of the right result.
double Ulps(float got, double right) {
  const auto nearest = static_cast<float>(right);
  const double unit = std::nextafter(std::abs(nearest), kInfinity) - std::abs(nearest);
  return std::abs(got - right) / unit;
}

// The greatest error over [low, high] and around 0.
template <class Ours, class Right>
double Worst(float low, float high, Ours ours, Right right) {
  constexpr int kSteps = 300'000;
  double worst = 0;
  const auto look = [&](float x) { worst = std::max(worst, Ulps(ours(x), right(double{x}))); };
  for (int i = 0; i <= kSteps; ++i) {
    const float part = static_cast<float>(i) / kSteps;
    look(low + (high - low) * part);
    look(std::ldexp(1.f + part, -i % 40));
    look(-std::ldexp(1.f + part, -i % 40));
  }
  return worst;
}

TEST_CASE("exp, tanh and the normal distribution are right to the last places") {
  CHECK(Worst(-87.3f, 88.7f, ExpOf, [](double x) { return std::exp(x); }) < 2);
  CHECK(Worst(-12, 12, TanhOf, [](double x) { return std::tanh(x); }) < 3);
  const auto below = [](float x) { return NormalOf(x).below; };
  const auto right = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  CHECK(Worst(-2, 5, below, right) < 6);
  CHECK(Worst(-5, -2, below, right) < 20);
}

TEST_CASE("exp, tanh and the normal distribution at the ends of what a float32 can be") {
  CHECK(ExpOf(0) == 1);
  CHECK(ExpOf(kInfinity) == kInfinity);
  CHECK(ExpOf(89) == kInfinity);
  CHECK(ExpOf(-kInfinity) == 0);
  CHECK(ExpOf(-110) == 0);
  CHECK(Ulps(ExpOf(-95), std::exp(-95.0)) < 2);  // subnormal
  CHECK(TanhOf(kInfinity) == 1);
  CHECK(TanhOf(-kInfinity) == -1);
  CHECK(TanhOf(std::numeric_limits<float>::max()) == 1);
  CHECK(TanhOf(0) == 0);
  CHECK(std::signbit(TanhOf(-0.f)));
  CHECK(std::isnan(TanhOf(std::nanf(""))));
  for (const float large : {40.f, std::numeric_limits<float>::max(), kInfinity}) {
    CHECK(NormalOf(large).below == 1);
    CHECK(NormalOf(-large).below == 0);
    CHECK(NormalOf(large).density == 0);
  }
  CHECK(NormalOf(0).below == 0.5f);
  CHECK(std::isnan(NormalOf(std::nanf("")).below));
  CHECK(std::isnan(ExpOf(std::nanf(""))));
}

}  // namespace
}  // namespace paracord::formulas
