// Which element of a window is its maximum.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "worker/ops/cpu/cpu_ops.h"

namespace paracord {
namespace {

constexpr int64_t kChannels = 9;  // more than a vector, and not whole vectors

// Windows of 2 x 2 beside each other over one image of 4 x 2.
struct Pooled {
  explicit Pooled(const std::vector<float>& x) : y(2 * kChannels), dx(x.size(), 77) {
    const auto ops = MakeCpuOps(1);
    auto pool = ops->MakePool2D({true,
                                 1,
                                 kChannels,
                                 {.in = 4, .out = 2, .size = 2, .stride = 2},
                                 {.in = 2, .out = 1, .size = 2, .stride = 2}});
    REQUIRE(pool.ok());
    (*pool)->Forward(x.data(), y.data());
    const std::vector<float> dy(y.size(), 3);
    (*pool)->Backward(dy.data(), dx.data());
    REQUIRE(ops->Finish().ok());
  }
  std::vector<float> y, dx;
};

TEST_CASE("a NaN at any place of a window is its maximum and gets the gradient") {
  for (size_t pixel = 0; pixel < 8; ++pixel) {
    for (size_t channel = 0; channel < kChannels; ++channel) {
      CAPTURE(pixel, channel);
      std::vector<float> x(8 * kChannels);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
      const size_t at = pixel * kChannels + channel;
      x[at] = std::numeric_limits<float>::quiet_NaN();
      const Pooled pooled(x);
      for (size_t i = 0; i < pooled.y.size(); ++i) {
        CHECK(std::isnan(pooled.y[i]) == (i == pixel / 4 * kChannels + channel));
      }
      CHECK(pooled.dx[at] == 3);
    }
  }
}

TEST_CASE("the first of equal maxima gets the gradient, below every finite number too") {
  const float value = GENERATE(0.f, -std::numeric_limits<float>::infinity());
  const Pooled pooled(std::vector<float>(8 * kChannels, value));
  for (size_t i = 0; i < pooled.dx.size(); ++i) {
    CHECK(pooled.dx[i] == (i / kChannels % 4 == 0 ? 3 : 0));
  }
  for (const float y : pooled.y) CHECK(y == value);
}

}  // namespace
}  // namespace paracord
