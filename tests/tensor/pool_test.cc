// Tests which element of a window is the maximum.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

constexpr int64_t kChannels = 9;  // more than a vector, and not whole vectors

// Adjacent windows of 2 x 2 over one image of 4 x 2.
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

// Pools every window by definition. The gradient is that of the sum of y times `weights`.
void PoolPlainly(const PoolShape& s, const std::vector<float>& x, const std::vector<float>& weights,
                 std::vector<float>& y, std::vector<float>& dx) {
  y.clear();
  dx.assign(x.size(), 0);
  for (int64_t row = 0; row < s.height.out; ++row) {
    for (int64_t column = 0; column < s.width.out; ++column) {
      std::vector<size_t> inside;
      for (int64_t v = 0; v < s.height.size; ++v) {
        for (int64_t u = 0; u < s.width.size; ++u) {
          const int64_t r = row * s.height.stride + v - s.height.pad_before;
          const int64_t c = column * s.width.stride + u - s.width.pad_before;
          if (r < 0 || r >= s.height.in || c < 0 || c >= s.width.in) continue;
          inside.push_back(static_cast<size_t>(r * s.width.in + c));
        }
      }
      const float weight = weights[y.size()], count = static_cast<float>(inside.size());
      size_t most = inside[0];
      float sum = 0;
      for (const size_t at : inside) {
        if (x[at] > x[most]) most = at;
        sum += x[at];
        if (!s.max) dx[at] += weight / count;
      }
      if (s.max) dx[most] += weight;
      y.push_back(s.max ? x[most] : sum / count);
    }
  }
}

TEST_CASE("pooling is what its windows say, for windows of any size, stride and padding") {
  const auto ops = MakeCpuOps(1);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    PoolShape shape{seed % 2 == 0, 1, 1, {}, {}};
    for (WindowAxis* axis : {&shape.height, &shape.width}) {
      *axis = {.in = draw(1, 7), .size = draw(1, 9), .stride = draw(1, 4)};
      axis->pad_before = draw(0, axis->size - 1);
      // The last window begins within the image.
      axis->out = (axis->in + axis->pad_before - 1) / axis->stride + 1;
    }
    std::vector<float> x(static_cast<size_t>(shape.height.in * shape.width.in));
    std::vector<float> weights(static_cast<size_t>(shape.height.out * shape.width.out));
    for (float& v : x) v = static_cast<float>(draw(-4, 4));
    for (float& v : weights) v = static_cast<float>(draw(1, 9));
    std::vector<float> y(weights.size()), dx(x.size(), 77), plain, d_plain;
    PoolPlainly(shape, x, weights, plain, d_plain);
    auto pool = ops->MakePool2D(shape);
    REQUIRE(pool.ok());
    (*pool)->Forward(x.data(), y.data());
    (*pool)->Backward(weights.data(), dx.data());
    for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == Approx(plain[i]));
    for (size_t i = 0; i < dx.size(); ++i) CHECK(dx[i] == Approx(d_plain[i]));
  }
}

TEST_CASE("the mean of a large image is as exact as that of a small one") {
  const WindowAxis height{.in = 700, .out = 1, .size = 700, .stride = 700};
  const WindowAxis width{.in = 900, .out = 1, .size = 900, .stride = 900};
  const std::vector<float> x(700 * 900 * 3, 0.1f);
  std::vector<float> y(3);
  const auto ops = MakeCpuOps(1);
  const auto pool = ops->MakePool2D({false, 1, 3, height, width}).value();
  pool->Forward(x.data(), y.data());
  for (const float mean : y) CHECK(mean == Approx(0.1f).epsilon(1e-6));
}

TEST_CASE("a pool takes no memory by the size of its window") {
  const WindowAxis wide{.in = 1 << 30, .out = 1 << 30, .size = 1 << 30, .pad_before = 1 << 29};
  CHECK(MakeCpuOps(1)->MakePool2D({false, 1, 1, wide, wide}).ok());
}

}  // namespace
}  // namespace paracord
