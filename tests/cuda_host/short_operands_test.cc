// Products and convolutions with 16-bit operands, compared with the processor's.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <vector>

#include "common/half_float.h"
#include "tensor/round_formulas.h"
#include "tests/cuda_host/both_engines.h"

namespace paracord {
namespace {

TEST_CASE("products of bfloat16 are those of the same numbers as float32") {
  for (uint32_t seed = 0; seed < 2 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    MatmulShape s = random.Product();
    s.bias = s.relu = false;
    const int64_t n = s.batch * s.k * s.n;
    // Exact in bfloat16.
    const Floats a = random.Ids(s.batch * s.m * s.k, 9), b = random.Ids(n, 200);
    Compare([&](ComparedEngine& side) {
      side.ops().AllowOperands(Operands::kBfloat16);
      auto product = side.ops().MakeMatmul(s).value();
      float *c = side.New(static_cast<size_t>(s.batch * s.m * s.n)), *pb = side.Put(b);
      float* half = side.New(b.size());
      auto* const rounded = reinterpret_cast<uint16_t*>(half);
      side.ops().Convert(n, pb, Tensor(rounded));
      product->Run(side.Put(a), {pb, rounded}, nullptr, c);
      side.Take(c, s.batch * s.m * s.n);
    });
  }
}

// Numbers with every exponent, ties, infinities and NaN.
Floats Roundings() {
  Floats all;
  for (uint32_t upper = 0; upper < 0x10000; upper += 7) {
    for (const uint32_t lower : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u,
                                 0xd000u, 0xf000u, 0xffffu}) {
      all.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return all;
}

TEST_CASE("rounding to bfloat16 gives the bits of the CPU") {
  const Floats x = Roundings();
  const auto n = static_cast<int64_t>(x.size());
  const auto round = [&](std::unique_ptr<Ops> ops) {
    ComparedEngine side(std::move(ops));
    const auto floats = static_cast<size_t>((n + 1) / 2);
    float* const rounded = side.New(floats);
    side.ops().Fill((n + 1) / 2, 0, rounded);
    side.ops().Convert(n, side.Put(x), Tensor(reinterpret_cast<uint16_t*>(rounded)));
    side.Take(rounded, (n + 1) / 2);
    std::vector<uint16_t> result(x.size());
    std::memcpy(result.data(), side.results()[0].data(), result.size() * sizeof(uint16_t));
    return result;
  };
  CHECK(round(CudaUnderTest(true)) == round(MakeCpuOps(1)));
}

TEST_CASE("rounding to float16 gives the bits that travel") {
  for (const float x : Roundings()) {
    uint16_t wanted = 0;
    FloatsToF16({&x, 1}, {&wanted, 1});
    const uint16_t got = formulas::Float16Bits(x);
    if (got != wanted && !(std::isnan(x) && (got & 0x7fff) > 0x7c00)) {
      FAIL_CHECK(std::bit_cast<uint32_t>(x) << " is " << got << " instead of " << wanted);
    }
  }
}

TEST_CASE("what travels in 16 bits is read as those floats") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto upper = static_cast<uint16_t>(bits);
    float half = 0, brain = 0;
    F16ToFloats({&upper, 1}, {&half, 1});
    Bf16ToFloats({&upper, 1}, {&brain, 1});
    const float got = formulas::OfFloat16(upper), got_brain = formulas::OfBfloat16(upper);
    if (std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(half)) FAIL_CHECK(bits);
    if (std::bit_cast<uint32_t>(got_brain) != std::bit_cast<uint32_t>(brain)) FAIL_CHECK(bits);
  }
}

TEST_CASE("the scale to float16 brings any magnitude near its largest, and can be taken off") {
  for (uint32_t bits = 1; bits < 0x7f800000u; bits += 0xffff) {
    const float largest = std::bit_cast<float>(bits);
    const float scale = formulas::ScaleToFloat16(largest), scaled = largest * scale;
    CAPTURE(largest, scale);
    if (!(scaled < 32768 && (scaled >= 16384 || scale == 0x1p126f))) FAIL_CHECK(scaled);
    if (scaled * (1 / scale) != largest) FAIL_CHECK("not the same again");
  }
  CHECK(formulas::ScaleToFloat16(0) == 0x1p126f);
  CHECK(formulas::ScaleToFloat16(INFINITY) == 1);
  CHECK(formulas::ScaleToFloat16(NAN) == 1);
}

// Fills a (m, 2) and b (2, n), which are large enough that rounding pays.
constexpr int64_t kLarge = 1792;
void FillRows(Floats& x, bool columns, float first, float second) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = (columns ? i % 2 == 0 : i < x.size() / 2) ? first : second;
  }
}

// The corner of the product, computed in float16 if that pays.
float Product(const Floats& a, const Floats& b, int64_t n = kLarge) {
  ComparedEngine side(CudaUnderTest(true));
  side.ops().AllowOperands(Operands::kFloat16);
  auto product = side.ops().MakeMatmul({.m = n, .k = 2, .n = n}).value();
  float* const c = side.New(static_cast<size_t>(n * n));
  product->Run(side.Put(a), side.Put(b), nullptr, c);
  side.Take(c, n * n);
  const Floats& all = side.results()[0];
  CHECK((all.back() == all.front() || std::isnan(all.front())));
  return all.front();
}
float Product(float a0, float a1, float b0, float b1, int64_t n = kLarge) {
  Floats a(static_cast<size_t>(2 * n)), b = a;
  FillRows(a, true, a0, a1);
  FillRows(b, false, b0, b1);
  return Product(a, b, n);
}

TEST_CASE("products take float16 of any magnitude, where rounding is worth it") {
  constexpr float kLost = 1 + 1.f / 4096;  // has a 12th bit
  CHECK(Product(kLost, 0, 1, 0) == 1);
  if (!OnGpu()) CHECK(Product(kLost, 0, 1, 0, 64) == 1);  // TF32, which has 11 bits, too
  for (const float a : {1e-38f, 1e-30f, 1e-8f, 1.f, 65520.f, 1e10f, 1e30f}) {
    for (const float b : {1e-7f, 1.f, 1e6f}) {
      CAPTURE(a, b);
      if (a * b < 1e-36f) continue;  // outside of float32's range
      CHECK(Product(a * kLost, 2 * a, b, b) == Approx(3.0 * a * b).epsilon(2e-3));
      CHECK(Product(-a, a / 1024, b, b) == Approx(-a * b * (1 - 1 / 1024.)).epsilon(2e-3));
    }
  }
  CHECK(Product(1, 1e-7f, 0, 1) == Approx(1e-7).epsilon(2e-3));  // far below the largest
  CHECK(Product(0, 0, 1, 1) == 0);
  CHECK(!std::isfinite(Product(INFINITY, 1, 1, 1)));
  CHECK(std::isnan(Product(NAN, 1, 1, 1)));
  CHECK(std::isnan(Product(1, 1, 1, NAN)));
}

TEST_CASE("products of float16 are those of the same numbers as float32, of every shape") {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int64_t batch : {1, 2}) {
        CAPTURE(transpose_a, transpose_b, batch);
        RandomInputs random(static_cast<uint32_t>(batch));
        MatmulShape s{2100, 3, 1800, transpose_a, transpose_b, /*bias=*/true, /*relu=*/true, batch};
        const Floats a = random.Ids(batch * s.m * s.k, 9), b = random.Ids(batch * s.k * s.n, 200);
        const Floats bias = random.Ids(s.n, 50);
        Compare([&](ComparedEngine& side) {
          side.ops().AllowOperands(Operands::kFloat16);
          auto product = side.ops().MakeMatmul(s).value();
          float* c = side.New(static_cast<size_t>(batch * s.m * s.n));
          product->Run(side.Put(a), side.Put(b), side.Put(bias), c);
          side.Take(c, batch * s.m * s.n);
        });
      }
    }
  }
}

// A shape for which rounding pays. With strides, the padding is at one end only, as in Keras.
ConvShape LargeConv(bool strides) {
  const WindowAxis plain = {.in = 52, .out = 52, .size = 7, .pad_before = 3, .pad_after = 3};
  const WindowAxis strided = {
      .in = 104, .out = 52, .size = 7, .stride = 2, .pad_before = 2, .pad_after = 3};
  return {.batch = 1,
          .in_channels = 64,
          .out_channels = 128,
          .height = strides ? strided : plain,
          .width = plain,
          .bias = !strides,
          .relu = true};
}
struct ConvTensors {
  Floats x, kernel, bias, dy;
};
void Convolve(ComparedEngine& side, Operands operands, const ConvShape& s, const ConvTensors& of) {
  side.ops().AllowOperands(operands);
  auto conv = side.ops().MakeConv2D(s).value();
  const float *x = side.Put(of.x), *kernel = side.Put(of.kernel), *dy = side.Put(of.dy);
  float *y = side.New(of.dy.size()), *dx = side.New(of.x.size());
  float *dkernel = side.New(of.kernel.size()), *dbias = side.New(of.bias.size());
  conv->Forward(x, kernel, side.Put(of.bias), y);
  conv->Backward({.dy = dy,
                  .dkernel = dkernel,
                  .dbias = s.bias ? dbias : nullptr,
                  .x = x,
                  .dx = dx,
                  .kernel = kernel});
  side.Take(y, static_cast<int64_t>(of.dy.size()));
  side.Take(dkernel, static_cast<int64_t>(of.kernel.size()));
  if (s.bias) side.Take(dbias, static_cast<int64_t>(of.bias.size()));
  side.Take(dx, static_cast<int64_t>(of.x.size()));
}
ConvTensors TensorsFor(const ConvShape& s, const std::function<Floats(int64_t n)>& draw) {
  return {draw(s.inputs()), draw(s.height.size * s.width.size * s.in_channels * s.out_channels),
          draw(s.out_channels), draw(s.outputs())};
}
constexpr Operands kShort[] = {Operands::kFloat16, Operands::kBfloat16};

TEST_CASE("convolutions in 16 bits are those of the same numbers as float32") {
  for (const Operands operands : kShort) {
    for (const bool strides : {false, true}) {
      CAPTURE(static_cast<int>(operands), strides);
      RandomInputs random(3);
      const ConvShape s = LargeConv(strides);
      // Few numbers are nonzero, so sums fit 8 bits.
      const ConvTensors of = TensorsFor(s, [&](int64_t n) {
        Floats all = random.Ids(n, 12);
        for (float& v : all) v = v > 1 ? 0 : v * 2 - 1;
        return all;
      });
      Compare([&](ComparedEngine& side) { Convolve(side, operands, s, of); });
    }
  }
}

TEST_CASE("convolutions round their operands, of any magnitude, where that is worth it") {
  const ConvShape s = LargeConv(true);
  RandomInputs random(4);
  const ConvTensors draw = TensorsFor(s, [&](int64_t n) { return random.Numbers(n); });
  for (const Operands operands : kShort) {
    for (const auto& [x, kernel, dy] : {std::tuple(1.f, 1.f, 1.f), std::tuple(1e-20f, 1e-6f, 1e10f),
                                        std::tuple(1e20f, 1e4f, 1e-15f)}) {
      CAPTURE(static_cast<int>(operands), x);
      ConvTensors of = draw;
      for (float& v : of.x) v *= x;
      for (float& v : of.kernel) v *= kernel;
      for (float& v : of.dy) v *= dy;
      ComparedEngine cpu(MakeCpuOps(1)), cuda(CudaUnderTest(true));
      Convolve(cpu, Operands::kFloat32, s, of);
      Convolve(cuda, operands, s, of);
      const double bits = operands == Operands::kFloat16 ? 2e-3 : 1.6e-2;
      for (size_t r = 0; r < cpu.results().size(); ++r) {
        double largest = 0, off = 0;
        for (size_t i = 0; i < cpu.results()[r].size(); ++i) {
          const double wanted = cpu.results()[r][i];
          largest = std::max(largest, std::abs(wanted));
          off = std::max(off, std::abs(cuda.results()[r][i] - wanted));
        }
        CAPTURE(r, largest, off);
        CHECK(off <= bits * largest);
        const bool rounds = operands == Operands::kFloat16 || cuda.ops().has_bfloat16();
        // An H200's error is 1/62 of the bound above. TF32's error, not meant here, is 1/8 of the
        // H200's.
        if (rounds) CHECK(off > bits / 150 * largest);
      }
    }
  }
}

TEST_CASE("what is not finite stays so in a convolution of float16, and nothing becomes so") {
  const ConvShape s = LargeConv(true);
  const auto all = [&](float x, float kernel) {
    ConvTensors of = TensorsFor(s, [&](int64_t n) { return Floats(static_cast<size_t>(n), x); });
    std::fill(of.kernel.begin(), of.kernel.end(), kernel);
    ComparedEngine side(CudaUnderTest(true));
    Convolve(side, Operands::kFloat16, s, of);
    return side.results();
  };
  CHECK(!std::isfinite(all(INFINITY, 1)[0].back()));
  CHECK(std::isnan(all(NAN, 1)[0].back()));
  CHECK(std::isnan(all(1, NAN)[0].back()));
  for (const float x : {0.f, 1e-40f, 1.f}) {  // the largest sums there can be, all of one sign
    for (const Floats& result : all(x, 1)) {
      for (const float v : result) {
        if (!std::isfinite(v)) FAIL_CHECK(v);
      }
    }
  }
}

}  // namespace
}  // namespace paracord
