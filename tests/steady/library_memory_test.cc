// Products and convolutions of the CPU's library stay in their memory, and so does what it makes
// them by: elsewhere what lies behind it may be nothing that can be read.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "steady/guarded_new.h"
#include "worker/ops/cpu/cpu_ops.h"

namespace paracord {
namespace {

WindowAxis SameAxis(int64_t in, int64_t size, int64_t stride) {
  WindowAxis axis{.in = in, .size = size, .stride = stride, .dilation = 1};
  axis.out = (in + stride - 1) / stride;
  const int64_t pad = std::max<int64_t>((axis.out - 1) * stride + size - in, 0);
  axis.pad_before = pad / 2;
  axis.pad_after = pad - pad / 2;
  return axis;
}

std::unique_ptr<Ops> OpsFor(Operands operands) {
  auto ops = MakeCpuOps(2);
  ops->AllowOperands(operands);
  return ops;
}

TEST_CASE("convolutions, and what the library makes them by, stay in their memory") {
  const Operands operands = GENERATE(Operands::kFloat32, Operands::kBfloat16);
  const GuardedNew guarded;
  const auto ops = OpsFor(operands);
  for (const int64_t size : {1, 3, 5}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t channels : {3, 16, 40, 64}) {
        for (const bool bias : {false, true}) {
          ConvShape s;
          s.batch = 5;
          s.in_channels = channels;
          s.out_channels = channels == 3 ? 16 : channels;
          s.groups = 1;
          s.height = SameAxis(10, size, stride);
          s.width = SameAxis(8, size, stride);
          s.bias = bias;
          s.relu = bias;
          CAPTURE(operands, size, stride, channels, bias);
          const auto inputs = static_cast<size_t>(s.inputs());
          const auto outputs = static_cast<size_t>(s.outputs());
          const auto filters = static_cast<size_t>(size * size * s.in_channels * s.out_channels);
          const auto biases = static_cast<size_t>(s.out_channels);
          const std::vector<float> x(inputs, 1), kernel(filters, 1), b(biases, 1), dy(outputs, 1);
          std::vector<float> y(outputs), dx(inputs), dkernel(filters), dbias(biases);
          const auto conv = ops->MakeConv2D(s);
          REQUIRE(conv.ok());
          (*conv)->Forward(x.data(), kernel.data(), bias ? b.data() : nullptr, y.data());
          (*conv)->Backward({.dy = dy.data(),
                             .dkernel = dkernel.data(),
                             .dbias = bias ? dbias.data() : nullptr,
                             .x = x.data(),
                             .dx = dx.data(),
                             .kernel = kernel.data()});
          REQUIRE(ops->Finish().ok());
          CHECK(y[0] > 0);
          CHECK(dx[0] > 0);
        }
      }
    }
  }
}

TEST_CASE("products, and what the library makes them by, stay in their memory") {
  const Operands operands = GENERATE(Operands::kFloat32, Operands::kBfloat16);
  const GuardedNew guarded;
  const auto ops = OpsFor(operands);
  for (const int64_t m : {1, 5, 64, 100}) {
    for (const int64_t k : {10, 64, 784}) {
      for (const int64_t n : {2, 10, 128}) {
        for (int transposed = 0; transposed < 4; ++transposed) {
          MatmulShape s{.m = m, .k = k, .n = n};
          s.transpose_a = (transposed & 1) != 0;
          s.transpose_b = (transposed & 2) != 0;
          CAPTURE(operands, m, k, n, transposed);
          const std::vector<float> a(static_cast<size_t>(m * k), 1);
          const std::vector<float> b(static_cast<size_t>(k * n), 1);
          std::vector<float> c(static_cast<size_t>(m * n));
          const auto matmul = ops->MakeMatmul(s);
          REQUIRE(matmul.ok());
          (*matmul)->Run(a.data(), b.data(), nullptr, c.data());
          REQUIRE(ops->Finish().ok());
          CHECK(c.back() == static_cast<float>(k));
        }
      }
    }
  }
}

}  // namespace
}  // namespace paracord
