// What of bfloat16 a device's engine computes, beside the processor's.
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "tests/cuda_host/both_engines.h"

namespace paracord {
namespace {

TEST_CASE("products of bfloat16 are those of the same numbers as float32") {
  for (uint32_t seed = 0; seed < 2 * kRounds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    MatmulShape s{random.Size(20), random.Size(30), random.Size(25)};
    s.transpose_a = random.Coin();
    s.transpose_b = random.Coin();
    s.batch = random.Coin() ? 1 : random.Size(4);
    const int64_t n = s.batch * s.k * s.n;
    const Floats a = random.Ids(s.batch * s.m * s.k, 9), b = random.Ids(n, 200);  // exact
    Compare([&](Side& side) {
      side.ops().AllowOperands(Operands::kBfloat16);
      auto product = side.ops().MakeMatmul(s).value();
      float *c = side.New(static_cast<size_t>(s.batch * s.m * s.n)), *pb = side.Put(b);
      float* half = side.New(b.size());
      auto* const rounded = reinterpret_cast<uint16_t*>(half);
      side.ops().ToBfloat16(n, pb, rounded);
      product->Run(side.Put(a), {pb, rounded}, nullptr, c);
      side.Take(c, s.batch * s.m * s.n);
    });
  }
}

// Every exponent, ties, what is not finite.
TEST_CASE("rounding to bfloat16 gives the bits of the CPU") {
  std::vector<uint32_t> bits;
  for (uint32_t upper = 0; upper < 0x10000; upper += 7) {
    for (const uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      bits.push_back(upper << 16 | lower);
    }
  }
  Floats x(bits.size());
  std::memcpy(x.data(), bits.data(), bits.size() * sizeof(float));
  const auto n = static_cast<int64_t>(x.size());
  const auto round = [&](std::unique_ptr<Ops> ops) {
    Side side(std::move(ops));
    const auto floats = static_cast<size_t>((n + 1) / 2);
    float* const rounded = side.New(floats);
    side.ops().Fill((n + 1) / 2, 0, rounded);
    side.ops().ToBfloat16(n, side.Put(x), reinterpret_cast<uint16_t*>(rounded));
    side.Take(rounded, (n + 1) / 2);
    std::vector<uint16_t> result(x.size());
    std::memcpy(result.data(), side.results()[0].data(), result.size() * sizeof(uint16_t));
    return result;
  };
  CHECK(round(CudaUnderTest(true)) == round(MakeCpuOps(1)));
}

}  // namespace
}  // namespace paracord
