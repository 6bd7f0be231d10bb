// Products and convolutions that may use bfloat16, by any means of this CPU. For operands that are
// exact in bfloat16, results equal float32's.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/cpu/cpu_ops.h"
#include "tests/tensor/threads.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

float Widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Returns small integers, so that products and sums are exact.
Floats Numbers(int64_t n, int64_t seed) {
  Floats x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>((i * 7919 + seed * 104729) % 17 - 8);
  }
  return x;
}

TEST_CASE("numbers are rounded to the nearest bfloat16, ties to even") {
  const float kInf = std::numeric_limits<float>::infinity();
  const auto rounded = [](float x) {
    uint16_t bits = 0;
    MakeCpuOps(1)->Convert(1, &x, Tensor(&bits));
    return Widened(bits);
  };
  CHECK(rounded(1.00390625f) == 1.f);        // 1 + 2^-8: a tie
  CHECK(rounded(1.01171875f) == 1.015625f);  // 1 + 3 x 2^-8: a tie
  CHECK(rounded(3.14159265f) == 3.140625f);
  CHECK(rounded(-3.4e38f) == -kInf);
  CHECK(rounded(kInf) == kInf);
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7f800001u))));
}

Floats ProductOf(Ops& ops, const MatmulShape& s, const ConstTensor& a, const ConstTensor& b,
                 const Floats& bias) {
  Floats c(static_cast<size_t>(s.batch * s.m * s.n), std::nanf(""));
  ops.MakeMatmul(s).value()->Run(a, b, bias.data(), c.data());
  REQUIRE(ops.Finish().ok());
  return c;
}

TEST_CASE("products of bfloat16 are those of float32, from either operand's form") {
  const auto ops = MakeCpuOps(GENERATE(range(1, kThreadsMost + 1)));
  for (const auto& [m, k, n, batch] : {std::array<int64_t, 4>{64, 784, 128, 1},
                                       {1, 64, 64, 1},
                                       {64, 10, 96, 1},
                                       {33, 65, 17, 1},
                                       {33, 63, 65, 1},
                                       {130, 2079, 10, 1},
                                       {32, 48, 1, 1},
                                       {16, 32, 64, 6},
                                       {3, 1, 5, 1}}) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      MatmulShape s{.m = m, .k = k, .n = n, .bias = batch == 1, .relu = m % 2 == 1};
      s.transpose_a = (transposed & 1) != 0;
      s.transpose_b = (transposed & 2) != 0;
      s.batch = batch;
      CAPTURE(m, k, n, batch, transposed);
      const Floats a = Numbers(batch * m * k, 1), b = Numbers(batch * k * n, 2);
      const Floats bias = Numbers(n, 3);
      ops->AllowOperands(Operands::kFloat32);
      const Floats wanted = ProductOf(*ops, s, a.data(), b.data(), bias);
      ops->AllowOperands(Operands::kBfloat16);
      CHECK(ProductOf(*ops, s, a.data(), b.data(), bias) == wanted);
      std::vector<uint16_t> short_b(b.size());
      ops->Convert(batch * k * n, b.data(), Tensor(short_b.data()));
      CHECK(ProductOf(*ops, s, a.data(), {b.data(), short_b.data()}, bias) == wanted);
    }
  }
}

TEST_CASE("where the processor has products of bfloat16 they are taken, and only if allowed") {
  const auto ops = MakeCpuOps(1);
  const MatmulShape s{.m = 64, .k = 64, .n = 64};
  const Floats a(64 * 64, 1 + 1.f / 1024), b(64 * 64, 1);
  for (const Operands operands : {Operands::kFloat32, Operands::kBfloat16, Operands::kTf32}) {
    ops->AllowOperands(operands);
    const bool taken = operands == Operands::kBfloat16 && ops->has_bfloat16();
    CHECK(ProductOf(*ops, s, a.data(), b.data(), {})[0] == (taken ? 64.f : 64.0625f));
  }
}

// Returns the three results, each between guards that must not change.
std::vector<Floats> Convolve(Ops& ops, const ConvShape& s, Operands operands) {
  constexpr size_t kGuard = 256;
  constexpr float kMark = 12345;
  const auto in = static_cast<size_t>(s.inputs());
  const auto out = static_cast<size_t>(s.outputs());
  const auto size =
      static_cast<size_t>(s.height.size * s.width.size * s.in_channels / s.groups * s.out_channels);
  const Floats x = Numbers(static_cast<int64_t>(in), 1);
  const Floats kernel = Numbers(static_cast<int64_t>(size), 2);
  const Floats dy = Numbers(static_cast<int64_t>(out), 3), bias = Numbers(s.out_channels, 4);
  const size_t sizes[] = {out, in, size, static_cast<size_t>(s.out_channels)};
  std::vector<Floats> results;
  for (const size_t n : sizes) results.emplace_back(n + 2 * kGuard, kMark);
  const auto at = [&](size_t i) { return results[i].data() + kGuard; };
  ops.AllowOperands(operands);
  const auto conv = ops.MakeConv2D(s).value();
  conv->Forward(x.data(), kernel.data(), bias.data(), at(0));
  conv->Backward({.dy = dy.data(),
                  .dkernel = at(2),
                  .dbias = at(3),
                  .x = x.data(),
                  .dx = at(1),
                  .kernel = kernel.data()});
  REQUIRE(ops.Finish().ok());
  for (size_t i = 0; i < results.size(); ++i) {
    CHECK(std::all_of(results[i].begin(), results[i].begin() + kGuard,
                      [](float f) { return f == kMark; }));
    CHECK(std::all_of(results[i].end() - kGuard, results[i].end(),
                      [](float f) { return f == kMark; }));
  }
  return results;
}

TEST_CASE("convolutions of bfloat16 are those of float32, and write nothing else") {
  mallopt(M_PERTURB, 0x3f);  // makes unwritten memory nonzero
  const auto ops = MakeCpuOps(GENERATE(range(1, kThreadsMost + 1)));
  struct Case {
    int64_t in_channels, out_channels, groups, side, size, stride, dilation;
    bool same;
  };
  for (const Case& c : {Case{64, 64, 1, 8, 3, 1, 1, true},
                        {32, 48, 1, 9, 3, 2, 1, true},
                        {3, 32, 1, 12, 5, 1, 1, false},
                        {1, 32, 1, 12, 3, 1, 1, true},
                        {32, 32, 32, 8, 3, 1, 1, true},
                        {64, 32, 2, 8, 3, 1, 1, true},
                        {17, 33, 1, 7, 3, 1, 2, true},
                        {40, 24, 1, 9, 3, 1, 2, true},
                        {32, 64, 1, 9, 1, 2, 1, true},
                        {17, 31, 1, 9, 1, 2, 1, false},
                        {40, 24, 1, 6, 1, 1, 1, true},
                        // Taps without a pixel.
                        {32, 32, 1, 1, 3, 2, 1, true},
                        {32, 32, 1, 2, 3, 3, 1, true},
                        {80, 1, 1, 1, 3, 2, 1, true},
                        {32, 48, 1, 2, 3, 1, 3, true}}) {
    CAPTURE(c.in_channels, c.out_channels, c.groups, c.side, c.size, c.stride, c.dilation);
    ConvShape s;
    s.batch = 3;
    s.in_channels = c.in_channels;
    s.out_channels = c.out_channels;
    s.groups = c.groups;
    s.bias = true;
    WindowAxis& axis = s.height;
    axis = {.in = c.side, .size = c.size, .stride = c.stride, .dilation = c.dilation};
    const int64_t reach = (c.size - 1) * c.dilation + 1;
    axis.out = c.same ? (c.side + c.stride - 1) / c.stride : (c.side - reach) / c.stride + 1;
    const int64_t pad = std::max<int64_t>((axis.out - 1) * c.stride + reach - c.side, 0);
    axis.pad_before = pad / 2;
    axis.pad_after = pad - pad / 2;
    s.width = s.height;
    const auto wanted = Convolve(*ops, s, Operands::kFloat32);
    const auto got = Convolve(*ops, s, Operands::kBfloat16);
    for (size_t i = 0; i < wanted.size(); ++i) {
      float furthest = 0;  // Winograd's algorithm divides
      for (size_t k = 0; k < wanted[i].size(); ++k) {
        furthest = std::max(furthest, std::abs(got[i][k] - wanted[i][k]));
      }
      CAPTURE(i);
      CHECK(furthest < 0.05f);
    }
  }
  mallopt(M_PERTURB, 0);
}

}  // namespace
}  // namespace paracord
