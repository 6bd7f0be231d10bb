// Compares random convolutions and products of the CPU with plain sums. Every tensor ends at an
// unreadable page, and so does the data from which the library generates code, because reads beyond
// the end are otherwise unnoticed.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "steady/guarded_new.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

using Sums = std::vector<double>;

size_t Size(int64_t n) { return static_cast<size_t>(n); }

// Small integers that are exact in bfloat16, with exact sums, as either type.
class Numbers {
 public:
  Numbers(std::mt19937& random, int64_t n, bool bfloat16) : floats_(Size(n)), bfloat16_(bfloat16) {
    for (float& x : floats_) x = static_cast<float>(static_cast<int>(random() % 17) - 8);
    if (!bfloat16) return;
    for (const float x : floats_) {
      rounded_.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16));
    }
    rounded_.shrink_to_fit();
  }
  double operator[](int64_t i) const { return static_cast<double>(floats_[Size(i)]); }
  operator ConstTensor() const {  // NOLINT: implicit, like a tensor
    return bfloat16_ ? ConstTensor(nullptr, rounded_.data()) : ConstTensor(floats_.data());
  }
  const float* floats() const { return floats_.data(); }
  int64_t size() const { return static_cast<int64_t>(floats_.size()); }

 private:
  std::vector<float> floats_;
  std::vector<uint16_t> rounded_;
  bool bfloat16_;
};

// A result of either type.
class Result {
 public:
  Result(int64_t n, bool bfloat16) : floats_(bfloat16 ? 0 : Size(n), NAN) {
    if (bfloat16) rounded_.assign(Size(n), 0x7fc0);
  }
  Tensor tensor() { return rounded_.empty() ? Tensor(floats_.data()) : Tensor(rounded_.data()); }
  // Returns the distance from the sums, beyond roundings to the type and Winograd's divisions.
  double Off(const Sums& sums) const {
    double worst = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const float got =
          rounded_.empty() ? floats_[i] : std::bit_cast<float>(uint32_t{rounded_[i]} << 16);
      const double bears = 0.1 + (rounded_.empty() ? 0 : std::abs(sums[i]) / 256);
      const double off = std::abs(static_cast<double>(got) - sums[i]) - bears;
      worst = std::isnan(got) ? INFINITY : std::max(worst, off);
    }
    return worst;
  }

 private:
  std::vector<float> floats_;
  std::vector<uint16_t> rounded_;
};

int64_t OneOf(std::mt19937& random, std::initializer_list<int64_t> values) {
  return values.begin()[random() % values.size()];
}
int64_t UpTo(std::mt19937& random, int64_t most) {
  return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
}

WindowAxis RandomAxis(std::mt19937& random) {
  WindowAxis axis{.in = UpTo(random, 20), .size = UpTo(random, 9), .stride = UpTo(random, 3)};
  if (axis.stride == 1) axis.dilation = UpTo(random, 3);
  const int64_t reach = (axis.size - 1) * axis.dilation + 1;
  if (random() % 2 == 0 && axis.in >= reach) {
    axis.out = (axis.in - reach) / axis.stride + 1;
    return axis;
  }
  axis.out = (axis.in + axis.stride - 1) / axis.stride;
  const int64_t pad = std::max<int64_t>((axis.out - 1) * axis.stride + reach - axis.in, 0);
  axis.pad_before = pad / 2;
  axis.pad_after = pad - pad / 2;
  return axis;
}

ConvShape RandomConv(std::mt19937& random) {
  const auto channels = [&] {
    if (random() % 2 == 0) return UpTo(random, 130);
    return OneOf(random, {1, 2, 3, 5, 8, 12, 16, 17, 24, 31, 32, 33, 48, 64, 80, 128});
  };
  ConvShape s{.batch = UpTo(random, 3), .in_channels = channels(), .out_channels = channels()};
  const auto kind = random() % 4;
  if (kind == 0) s.groups = s.out_channels = s.in_channels;
  if (kind == 1) {
    s.groups = UpTo(random, 4);
    s.in_channels *= s.groups;
    s.out_channels *= s.groups;
  }
  s.height = s.width = RandomAxis(random);
  if (random() % 2 == 0) s.height = {.in = 1, .out = 1};
  if (random() % 2 == 0) s.width = RandomAxis(random);
  s.bias = random() % 2 == 0;
  return s;
}

struct ConvSums {
  Sums y, dx, dkernel, dbias;
};

// Returns the pixel under a tap of a window, or -1.
int64_t Place(const WindowAxis& axis, int64_t out, int64_t tap) {
  const int64_t at = out * axis.stride + tap * axis.dilation - axis.pad_before;
  return at < axis.in ? std::max<int64_t>(at, -1) : -1;
}

ConvSums Convolved(const ConvShape& s, const Numbers& x, const Numbers& kernel, const Numbers& bias,
                   const Numbers& dy) {
  const int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  ConvSums sums{Sums(Size(dy.size())), Sums(Size(x.size())), Sums(Size(kernel.size())),
                Sums(Size(bias.size()))};
  const auto connect = [&](int64_t pixel, int64_t tap, int64_t to) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      const double d = dy[to + o];
      double sum = 0;
      for (int64_t c = 0; c < in; ++c) {
        const int64_t from = pixel * s.in_channels + o / out * in + c;
        const int64_t weight = (tap * in + c) * s.out_channels + o;
        sum += x[from] * kernel[weight];
        sums.dx[Size(from)] += d * kernel[weight];
        sums.dkernel[Size(weight)] += d * x[from];
      }
      sums.y[Size(to + o)] += sum;
    }
  };
  const int64_t rows = s.height.out, columns = s.width.out;
  for (int64_t at = 0; at < s.batch * rows * columns; ++at) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      sums.y[Size(at * s.out_channels + o)] += s.bias ? bias[o] : 0;
      sums.dbias[Size(o)] += dy[at * s.out_channels + o];
    }
    for (int64_t tap = 0; tap < s.height.size * s.width.size; ++tap) {
      const int64_t row = Place(s.height, at / columns % rows, tap / s.width.size);
      const int64_t column = Place(s.width, at % columns, tap % s.width.size);
      if (row < 0 || column < 0) continue;
      const int64_t image = at / (rows * columns);
      connect((image * s.height.in + row) * s.width.in + column, tap, at * s.out_channels);
    }
  }
  return sums;
}

// Checks a convolution in float32, or in bfloat16, if the CPU has it, with tensors of either type.
void CheckConv(Ops& ops, ConvShape s, std::mt19937& random, Operands operands) {
  ops.AllowOperands(operands);
  if (operands == Operands::kBfloat16) {
    s.x_bfloat16 = random() % 2 == 0;
    s.y_bfloat16 = random() % 2 == 0;
    if (!ops.ComputesBfloat16(s)) return;
  }
  const WindowAxis &h = s.height, &w = s.width;
  CAPTURE(operands, s.batch, s.in_channels, s.out_channels, s.groups, s.bias, h.in, h.out, h.size,
          h.stride, h.dilation, h.pad_before, h.pad_after, w.in, w.out, w.size, w.stride,
          w.dilation, w.pad_before, w.pad_after, s.x_bfloat16, s.y_bfloat16);
  const int64_t weights = h.size * w.size * s.in_channels / s.groups * s.out_channels;
  const Numbers x(random, s.inputs(), s.x_bfloat16), dy(random, s.outputs(), s.y_bfloat16);
  const Numbers kernel(random, weights, false), bias(random, s.out_channels, false);
  Result y(dy.size(), s.y_bfloat16), dx(x.size(), s.x_bfloat16);
  Result dkernel(weights, false), dbias(bias.size(), false);
  const auto conv = ops.MakeConv2D(s);
  REQUIRE(conv.ok());
  (*conv)->Forward(x, kernel.floats(), s.bias ? bias.floats() : nullptr, y.tensor());
  (*conv)->Backward({.dy = dy,
                     .dkernel = dkernel.tensor(),
                     .dbias = s.bias ? dbias.tensor().float32 : nullptr,
                     .x = x,
                     .dx = dx.tensor(),
                     .kernel = kernel.floats()});
  REQUIRE(ops.Finish().ok());
  const ConvSums sums = Convolved(s, x, kernel, bias, dy);
  CHECK(y.Off(sums.y) <= 0);
  CHECK(dx.Off(sums.dx) <= 0);
  CHECK(dkernel.Off(sums.dkernel) <= 0);
  if (s.bias) CHECK(dbias.Off(sums.dbias) <= 0);
}

void CheckConvs(uint32_t first, uint32_t end) {
  const GuardedNew guarded;
  const auto ops = MakeCpuOps(2);
  for (uint32_t seed = first; seed < end; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const ConvShape s = RandomConv(random);
    CheckConv(*ops, s, random, Operands::kFloat32);
    CheckConv(*ops, s, random, Operands::kBfloat16);
  }
}

TEST_CASE("convolutions are plain sums of their own numbers") { CheckConvs(0, 60); }
TEST_CASE("many convolutions are plain sums of their own numbers", "[.slow]") {
  CheckConvs(1000, 6000);
}

void CheckProduct(Ops& ops, const MatmulShape& s, std::mt19937& random, Operands operands) {
  ops.AllowOperands(operands);
  CAPTURE(operands, s.m, s.k, s.n, s.batch, s.transpose_a, s.transpose_b, s.bias, s.relu);
  const Numbers a(random, s.batch * s.m * s.k, false), b(random, s.batch * s.k * s.n, false);
  const Numbers bias(random, s.n, false);
  Result c(s.batch * s.m * s.n, false);
  const auto matmul = ops.MakeMatmul(s);
  REQUIRE(matmul.ok());
  (*matmul)->Run(a, b, s.bias ? bias.floats() : nullptr, c.tensor());
  REQUIRE(ops.Finish().ok());
  Sums sums;
  for (int64_t at = 0; at < s.batch * s.m * s.n; ++at) {
    const int64_t batch = at / (s.m * s.n), i = at / s.n % s.m, j = at % s.n;
    double sum = s.bias ? bias[j] : 0;
    for (int64_t k = 0; k < s.k; ++k) {
      sum += a[batch * s.m * s.k + (s.transpose_a ? k * s.m + i : i * s.k + k)] *
             b[batch * s.k * s.n + (s.transpose_b ? j * s.k + k : k * s.n + j)];
    }
    sums.push_back(s.relu ? std::max(sum, 0.0) : sum);
  }
  CHECK(c.Off(sums) <= 0);
}

void CheckProducts(uint32_t first, uint32_t end) {
  const GuardedNew guarded;
  const auto ops = MakeCpuOps(2);
  for (uint32_t seed = first; seed < end; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto side = [&] {
      return random() % 2 == 0 ? UpTo(random, 100) : OneOf(random, {1, 2, 16, 32, 64, 128, 256});
    };
    MatmulShape s{.m = side(), .k = side(), .n = side()};
    if (random() % 4 == 0) s.k = UpTo(random, 2200);
    s.transpose_a = random() % 2 == 0;
    s.transpose_b = random() % 2 == 0;
    s.batch = random() % 4 == 0 ? UpTo(random, 4) : 1;
    s.bias = random() % 2 == 0;
    s.relu = random() % 2 == 0;
    CheckProduct(*ops, s, random, Operands::kFloat32);
    CheckProduct(*ops, s, random, Operands::kBfloat16);
  }
}

TEST_CASE("products are plain sums of their own numbers") { CheckProducts(0, 60); }
TEST_CASE("many products are plain sums of their own numbers", "[.slow]") {
  CheckProducts(1000, 5000);
}

}  // namespace
}  // namespace paracord
