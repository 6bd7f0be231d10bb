// Operations on bfloat16 tensors, on both engines.
#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "tensor/round_formulas.h"
#include "tests/cuda_host/both_engines.h"

namespace paracord {
namespace {

constexpr std::array<bool, 2> kEither = {false, true};

// Puts infinities, NaN, and the extremes of finite numbers among the numbers.
Floats WithOthers(Floats x, RandomInputs& random) {
  for (const float other : {NAN, INFINITY, -INFINITY, 0.f, -0.f, 3e38f, 1e-40f}) {
    x[static_cast<size_t>(random.Size(static_cast<int64_t>(x.size())) - 1)] = other;
  }
  return x;
}
// The numbers rounded to bfloat16.
Floats Rounded(Floats x) {
  for (float& v : x) v = formulas::OfBfloat16(formulas::Bfloat16Bits(v));
  return x;
}

TEST_CASE("every number of bfloat16 is converted, and to itself") {
  Floats x(0x10000 - 1);
  for (uint32_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(i << 16);
  const auto n = static_cast<int64_t>(x.size());
  Compare(
      [&](ComparedEngine& side) {
        const Tensor half = side.PutTensor(x, true), other = side.NewTensor(x.size(), true);
        side.ops().Convert(n, half, other);
        side.TakeTensor(half, n);
        side.TakeTensor(other, n);
      },
      true, {0, 0});
}

TEST_CASE("activations of bfloat16 and their gradients are those of the CPU") {
  for (int kind = 0; kind <= static_cast<int>(ActivationKind::kCosh); ++kind) {
    const Activation p{static_cast<ActivationKind>(kind), 0.3f, 1.5f, 0.1f};
    const bool of_rows = p.kind == ActivationKind::kSoftmax ||
                         p.kind == ActivationKind::kLogSoftmax ||
                         p.kind == ActivationKind::kSparsemax || p.kind == ActivationKind::kGlu;
    if (of_rows) continue;
    for (uint32_t types = 0; types < 4; ++types) {
      const bool short_x = (types & 1) != 0, short_y = (types & 2) != 0;
      INFO("kind " << kind << " x " << short_x << " y " << short_y);
      RandomInputs random(types);
      const int64_t rows = random.Size(40), columns = 30 + random.Size(30), n = rows * columns;
      const bool positive = p.kind == ActivationKind::kPower || p.kind == ActivationKind::kLog ||
                            p.kind == ActivationKind::kLog1p;
      const bool relu = p.kind == ActivationKind::kRelu, by_y = relu && random.Coin();
      Floats x = random.Numbers(n, positive ? 0.1f : -4, 4), dy = random.Numbers(n);
      if (relu) x = WithOthers(x, random);
      Compare(
          [&](ComparedEngine& side) {
            const Tensor px = side.PutTensor(x, short_x), y = side.NewTensor(x.size(), short_y);
            const Tensor d = side.PutTensor(dy, short_y), dx = side.NewTensor(x.size(), short_x);
            side.ops().Activate(p, rows, columns, px, y);
            side.TakeTensor(y, n);
            const ConstTensor slopes_at = by_y ? ConstTensor() : px;
            side.ops().ActivateBackward(p, rows, columns, slopes_at, y, d, dx);
            side.TakeTensor(dx, n);
            if (short_x != short_y) return;
            side.ops().ActivateBackward(p, rows, columns, slopes_at, y, d, d);
            side.TakeTensor(d, n);
            side.ops().Activate(p, rows, columns, px, px);
            side.TakeTensor(px, n);
          },
          true, kOneRounding);
    }
  }
}

TEST_CASE("sums and other pairs of bfloat16 are those of the CPU") {
  for (uint32_t types = 0; types < 8; ++types) {
    const bool short_a = (types & 1) != 0, short_b = (types & 2) != 0, short_y = (types & 4) != 0;
    RandomInputs random(types);
    const int64_t n = 257 + 2 * random.Size(2000);
    INFO("a " << short_a << " b " << short_b << " y " << short_y);
    const Floats a = random.Numbers(n, 0.5f, 2), b = random.Numbers(n, 0.5f, 2);
    const Floats p = WithOthers(random.Numbers(n), random);
    const Floats q = WithOthers(random.Numbers(n), random);
    Compare(
        [&](ComparedEngine& side) {
          Ops& ops = side.ops();
          const Walk walk{{n}, {1}, {1}, {1}};
          const Tensor y = side.NewTensor(a.size(), short_y);
          const Tensor pa = side.PutTensor(a, short_a), pb = side.PutTensor(b, short_b);
          for (int kind = 0; kind <= static_cast<int>(BinaryKind::kAddRelu); ++kind) {
            ops.Binary(static_cast<BinaryKind>(kind), walk, pa, pb, y);
            side.TakeTensor(y, n);
          }
          const Tensor pp = side.PutTensor(p, short_a), pq = side.PutTensor(q, short_b);
          for (const BinaryKind kind :
               {BinaryKind::kAdd, BinaryKind::kAddRelu, BinaryKind::kMaximum, BinaryKind::kKeep}) {
            ops.Binary(kind, walk, pp, pq, y);
            side.TakeTensor(y, n);
          }
          ops.Add(n, pp, pq);
          side.TakeTensor(pq, n);
          ops.Add(n, pa, pa);
          side.TakeTensor(pa, n);
        },
        true, kOneRounding);
  }
}

TEST_CASE("normalisation of columns of bfloat16 and its gradients are those of the CPU") {
  const int64_t sizes[][2] = {{20000, 3}, {1, 5}, {7, 1}, {300, 37}, {513, 64}, {33, 257}, {90, 8}};
  for (uint32_t seed = 0; seed < 56; ++seed) {
    const bool short_x = (seed & 1) != 0, short_y = (seed & 2) != 0;
    RandomInputs random(seed);
    const int64_t rows = sizes[seed / 8][0], columns = sizes[seed / 8][1];
    NormShape s{.by_column = true, .rows = rows, .columns = columns, .epsilon = 1e-3f};
    s.relu = std::array{0.f, 1.f, 3e38f}[seed % 3];
    const bool constant = random.Coin(), scaled = random.Coin(), null_dx = random.Coin();
    INFO("seed " << seed << " x " << short_x << " y " << short_y << " constant " << constant);
    const int64_t n = rows * columns;
    const Floats x = random.Numbers(n, 3, 5), dy = random.Numbers(n);
    const Floats scale = random.Numbers(columns), offset = random.Numbers(columns);
    const Floats means = random.Numbers(columns, 3, 5), around = random.Numbers(columns, 0.5f, 2);
    Compare(
        [&](ComparedEngine& side) {
          Ops& ops = side.ops();
          const auto wide = static_cast<size_t>(columns);
          const Tensor px = side.PutTensor(x, short_x), pdy = side.PutTensor(dy, short_y);
          const Tensor y = side.NewTensor(x.size(), short_y);
          const Tensor dx = side.NewTensor(x.size(), short_x);
          float *mean = side.New(wide), *variance = side.New(wide);
          float *ps = scaled ? side.Put(scale) : nullptr, *po = scaled ? side.Put(offset) : nullptr;
          float *ds = side.New(wide), *d_o = side.New(wide);
          ops.Moments(s, px, mean, variance);
          side.Take(mean, columns);
          side.Take(variance, columns);
          // Both engines get equal moments, so that equal ReLUs are active.
          mean = side.Put(means), variance = side.Put(around);
          ops.Normalize(s, px, mean, variance, ps, po, y);
          side.TakeTensor(y, n);
          ops.NormalizeBackward(s, constant, px, mean, variance, ps, po, pdy, dx, ds, d_o);
          side.TakeTensor(dx, n);
          side.Take(ds, columns);
          side.Take(d_o, columns);
          const Tensor no = null_dx ? Tensor() : dx;
          ops.NormalizeBackward(s, constant, px, mean, variance, ps, po, pdy, no, nullptr, d_o);
          side.Take(d_o, columns);
          if (!null_dx) side.TakeTensor(dx, n);
        },
        true, kOneRounding);
  }
}

// Sizes of axes; sometimes there are more axes than a kernel takes.
std::vector<int64_t> Dims(uint32_t seed, RandomInputs& random) {
  std::vector<int64_t> dims(seed % 5 == 4 ? 10 : static_cast<size_t>(random.Size(5)));
  for (int64_t& dim : dims) dim = dims.size() == 10 ? 2 : random.Size(seed % 8 == 3 ? 12 : 7);
  return dims;
}
int64_t Product(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

TEST_CASE("copies of bfloat16 are those of the CPU, in any order, and nothing beside them") {
  for (uint32_t seed = 0; seed < 96; ++seed) {
    const bool short_a = (seed & 1) != 0, short_y = (seed & 2) != 0;
    INFO("seed " << seed << " a " << short_a << " y " << short_y);
    RandomInputs random(seed);
    Walk walk{.dims = Dims(seed / 4, random), .a = {}, .b = {}, .y = {}};
    const int64_t all = Product(walk.dims), from = random.Size(9), to = random.Size(9);
    if (seed < 8) {  // contiguous
      walk = {{all}, {1}, {}, {1}};
    } else {
      walk.a = random.Steps(walk.dims, random.Coin());
      walk.y = random.Steps(walk.dims, false);
    }
    const Floats a = random.Numbers(all + from), y = random.Numbers(all + to + 5, 2, 4);
    Compare(
        [&](ComparedEngine& side) {
          const Tensor pa = side.PutTensor(a, short_a), py = side.PutTensor(y, short_y);
          side.ops().Copy(walk, false, pa + from, py + to);
          side.TakeTensor(py, all + to + 5);
        },
        true, {0, 0});
    Compare(
        [&](ComparedEngine& side) {
          const Tensor pa = side.PutTensor(a, short_a), py = side.PutTensor(y, short_y);
          side.ops().Copy(walk, true, pa + from, py + to);
          side.TakeTensor(py, all + to + 5);
        },
        true, kOneRounding);
  }
}

TEST_CASE("transposes of bfloat16 are those of the CPU, whichever side is in order") {
  for (uint32_t seed = 0; seed < 32; ++seed) {
    const bool short_a = (seed & 1) != 0, short_y = (seed & 2) != 0, back = (seed & 4) != 0;
    RandomInputs random(seed);
    const int64_t count = random.Size(3), rows = random.Size(40), columns = random.Size(40);
    CAPTURE(short_a, short_y, back, count, rows, columns);
    const int64_t each = rows * columns, all = count * each;
    Walk walk{{count, columns, rows}, {each, 1, columns}, {}, {each, rows, 1}};
    if (back) std::swap(walk.a, walk.y);
    const Floats a = random.Numbers(all), y = random.Numbers(all + 4);
    Compare(
        [&](ComparedEngine& side) {
          const Tensor py = side.PutTensor(y, short_y);
          side.ops().Copy(walk, false, side.PutTensor(a, short_a), py + 1);
          side.TakeTensor(py, all + 4);
        },
        true, {0, 0});
  }
}

TEST_CASE("sums of bfloat16 along walks are those of the CPU, rounded once") {
  for (uint32_t seed = 0; seed < 96; ++seed) {
    const bool short_a = (seed & 1) != 0, short_y = (seed & 2) != 0;
    INFO("seed " << seed << " a " << short_a << " y " << short_y);
    RandomInputs random(seed);
    Walk walk{.dims = Dims(seed / 4, random), .a = {}, .b = {}, .y = {}};
    walk.a = random.Steps(walk.dims, random.Coin());
    walk.y = random.Steps(walk.dims, true);
    if (seed < 4) walk = {{3000, 7}, {7, 1}, {}, {0, 1}};        // neighbours, in parts
    if (seed / 4 == 1) walk = {{3, 900}, {900, 1}, {}, {1, 0}};  // contiguous elements
    if (seed / 4 == 2) {  // more axes than a kernel takes, none of which can be joined
      walk = {std::vector<int64_t>(12, 2), {}, {}, std::vector<int64_t>(12)};
      for (int64_t axis = 0; axis < 12; ++axis) walk.a.push_back(int64_t{1} << axis);
      walk.y[0] = 1, walk.y[7] = 2;
    }
    const int64_t all = Product(walk.dims);
    const Floats a = random.Numbers(all, 0.5f, 1), y = random.Numbers(all, 100, 200);
    Compare(
        [&](ComparedEngine& side) {
          const Tensor py = side.PutTensor(y, short_y);
          side.ops().Copy(walk, true, side.PutTensor(a, short_a), py);
          side.TakeTensor(py, all);
        },
        true, kOneRounding);
  }
}

TEST_CASE("a sum along a walk into bfloat16 keeps what single roundings would lose") {
  // Adds 4096 times 1/16 to 256, whose neighbours in bfloat16 are 2 apart; along few axes and along
  // many.
  const Walk few{{4096}, {1}, {}, {0}};
  Walk many{std::vector<int64_t>(12, 2), {}, {}, std::vector<int64_t>(12)};
  for (int64_t axis = 0; axis < 12; ++axis) many.a.push_back(int64_t{1} << axis);
  for (const Walk& walk : {few, many}) {
    Compare([&](ComparedEngine& side) {
      const Tensor y = side.PutTensor({256}, true);
      side.ops().Copy(walk, true, side.PutTensor(Floats(4096, 1.f / 16), true), y);
      side.TakeTensor(y, 1);
      CHECK(side.results().back()[0] == 512);
    });
  }
}

TEST_CASE("pairs of bfloat16 along any walk are those of the CPU, either side broadcast") {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    const bool short_a = (seed & 1) != 0, short_b = (seed & 2) != 0, short_y = (seed & 4) != 0;
    INFO("seed " << seed << " a " << short_a << " b " << short_b << " y " << short_y);
    RandomInputs random(seed);
    Walk walk{.dims = Dims(seed / 8, random), .a = {}, .b = {}, .y = {}};
    walk.a = random.Steps(walk.dims, random.Coin());
    walk.b = random.Steps(walk.dims, random.Coin());
    walk.y = random.Steps(walk.dims, false);
    // The broadcast of squeeze and excitation, in both directions.
    if (seed < 8) walk = {{3, 35, 9}, {315, 9, 1}, {9, 0, 1}, {315, 9, 1}};
    if (seed / 8 == 1) walk = {{3, 35, 9}, {9, 0, 1}, {315, 9, 1}, {315, 9, 1}};
    const int64_t all = Product(walk.dims);
    const Floats a = random.Numbers(all + 1, 0.5f, 2), b = random.Numbers(all + 3, 0.5f, 2);
    const Floats y = random.Numbers(all + 5);
    Compare(
        [&](ComparedEngine& side) {
          const Tensor pa = side.PutTensor(a, short_a), pb = side.PutTensor(b, short_b);
          const Tensor py = side.PutTensor(y, short_y);
          for (const BinaryKind kind :
               {BinaryKind::kAdd, BinaryKind::kMultiply, BinaryKind::kDivide, BinaryKind::kMaximum,
                BinaryKind::kLess, BinaryKind::kKeep, BinaryKind::kAddRelu}) {
            side.ops().Binary(kind, walk, pa + 1, pb + 3, py + 2);
            side.TakeTensor(py, all + 5);
          }
        },
        true, kOneRounding);
  }
}

TEST_CASE("bfloat16 is filled to the element") {
  for (const int64_t n : {0, 1, 2, 5, 255, 1001}) {
    for (const int64_t from : {0, 1, 2}) {
      Compare(
          [&](ComparedEngine& side) {
            const Tensor y = side.PutTensor(Floats(static_cast<size_t>(n) + 4, 7), true);
            side.ops().Fill(n, 1.f / 3, y + from);
            side.TakeTensor(y, n + 4);
            const Floats& got = side.results().back();
            CHECK(std::count(got.begin(), got.end(), 7.f) == 4);
          },
          true, {0, 0});
    }
  }
}

TEST_CASE("dropout of bfloat16 drops what that of float32 does, in place too") {
  for (uint32_t types = 0; types < 4; ++types) {
    const bool short_x = (types & 1) != 0, short_y = (types & 2) != 0;
    RandomInputs random(types);
    const int64_t n = 1001 + random.Size(3000), first = random.Size(1000);
    INFO("x " << short_x << " y " << short_y);
    const Floats x = Rounded(random.Numbers(n, 1, 2));
    Compare(
        [&](ComparedEngine& side) {
          Ops& ops = side.ops();
          const Tensor px = side.PutTensor(x, short_x), y = side.NewTensor(x.size(), short_y);
          float* const wide = side.New(x.size());
          ops.Dropout(types + 3, 0.4f, first, n, side.Put(x), wide);
          side.Take(wide, n);
          ops.Dropout(types + 3, 0.4f, first, n, px, y);
          side.TakeTensor(y, n);
          ops.Dropout(types + 3, 0.4f, first, n, px, px);
          side.TakeTensor(px, n);
          const std::vector<Floats>& got = side.results();
          for (size_t i = 0; i < x.size(); ++i) {
            if ((got[0][i] == 0) == (got[1][i] == 0) && (got[0][i] == 0) == (got[2][i] == 0)) {
              continue;
            }
            FAIL_CHECK("element " << i);
          }
        },
        true, kOneRounding);
  }
}

WindowAxis Axis(int64_t in, int64_t size, int64_t stride, int64_t before, int64_t after) {
  const int64_t out = (in + before + after - size) / stride + 1;
  return {.in = in,
          .out = out,
          .size = size,
          .stride = stride,
          .pad_before = before,
          .pad_after = after};
}

TEST_CASE("pooling of bfloat16 is that of the CPU, of what is not finite too") {
  for (uint32_t seed = 0; seed < 48; ++seed) {
    const bool short_x = (seed & 1) != 0, short_y = (seed & 2) != 0;
    RandomInputs random(seed);
    const int64_t channels = std::array<int64_t, 6>{1, 3, 5, 31, 32, 36}[seed % 6];
    PoolShape s{(seed & 4) != 0, random.Size(2), channels, Axis(7, 3, 2, 1, 1),
                Axis(9, 2, 2, 0, 1)};
    if (seed % 8 == 3) s.width = Axis(1501, 1501, 1, 0, 0);  // an average summed in parts
    INFO("seed " << seed << " x " << short_x << " y " << short_y);
    const int64_t in = s.batch * s.height.in * s.width.in * channels;
    const int64_t out = s.batch * s.height.out * s.width.out * channels;
    const Floats x = random.Coin() ? random.Ids(in, 3) : WithOthers(random.Numbers(in), random);
    const Floats dy = random.Numbers(out);
    Compare(
        [&](ComparedEngine& side) {
          auto pool = side.ops().MakePool2D(s).value();
          const Tensor y = side.NewTensor(dy.size(), short_y);
          const Tensor dx = side.NewTensor(x.size(), short_x);
          pool->Forward(side.PutTensor(x, short_x), y);
          side.TakeTensor(y, out);
          pool->Backward(side.PutTensor(dy, short_y), dx);
          side.TakeTensor(dx, in);
        },
        true, kOneRounding);
  }
}

struct Elements {
  explicit Elements(const ConvShape& s)
      : in(s.inputs()),
        out(s.outputs()),
        kernel(s.height.size * s.width.size * s.in_channels / s.groups * s.out_channels) {}
  int64_t in, out, kernel;
};

// The numbers are exact in bfloat16, so no engine rounds them. `before`: offset of the tensors in
// their allocations, in elements.
void CheckConvolution(const ConvShape& s, Operands operands, bool cudnn, RandomInputs& random,
                      int64_t before = 0) {
  const Elements n(s);
  const Floats x = Rounded(random.Numbers(n.in)), kernel = Rounded(random.Numbers(n.kernel));
  const Floats bias = random.Numbers(s.out_channels), dy = Rounded(random.Numbers(n.out));
  // Results are rounded once more before a bias is added, and where cuDNN computes the kernel's
  // gradient.
  Compare(
      [&](ComparedEngine& side) {
        side.ops().AllowOperands(operands);
        auto conv = side.ops().MakeConv2D(s).value();
        const Tensor px = side.PutTensor(x, s.x_bfloat16, before);
        const Tensor pdy = side.PutTensor(dy, s.y_bfloat16, before);
        const Tensor y = side.NewTensor(dy.size(), s.y_bfloat16, before);
        const Tensor dx = side.NewTensor(x.size(), s.x_bfloat16, before);
        float *pk = side.Put(kernel), *dk = side.New(kernel.size()), *db = side.New(bias.size());
        conv->Forward(px, pk, s.bias ? side.Put(bias) : nullptr, y);
        side.TakeTensor(y, n.out);
        conv->Backward({.dy = pdy,
                        .dkernel = dk,
                        .dbias = s.bias ? db : nullptr,
                        .x = px,
                        .dx = dx,
                        .kernel = pk});
        side.TakeTensor(dx, n.in);
        side.Take(dk, n.kernel);
        if (s.bias) side.Take(db, s.out_channels);
        conv->Backward({.dy = pdy, .dx = dx, .kernel = pk});
        side.TakeTensor(dx, n.in);
      },
      cudnn, {1.0 / 128, 1.0 / 256});
}

TEST_CASE("convolutions of bfloat16 are those of the CPU, by cuDNN and without it") {
  for (uint32_t seed = 0; seed < 64; ++seed) {
    RandomInputs random(seed);
    ConvShape s;
    s.x_bfloat16 = (seed & 1) != 0;
    s.y_bfloat16 = (seed & 2) != 0;
    s.groups = random.Coin() ? 1 : random.Size(3);
    s.batch = random.Size(3);
    s.in_channels = s.groups * random.Size(5);
    s.out_channels = s.groups * random.Size(9);
    s.height = random.Coin() ? Axis(7, 3, 2, 0, 1) : Axis(8, 3, 1, 1, 1);
    s.width = random.Coin() ? Axis(9, 2, 2, 0, 0) : Axis(6, 1, 1, 0, 0);
    s.bias = random.Coin();
    s.relu = random.Coin();
    const auto operands = static_cast<Operands>(seed % 8 < 4 ? 3 : seed / 8 % 4);
    INFO("seed " << seed << " operands " << static_cast<int>(operands));
    for (const bool cudnn : kEither) CheckConvolution(s, operands, cudnn, random);
  }
}

TEST_CASE("convolutions of bfloat16 tensors at any address, and of none, are those of the CPU") {
  for (const bool cudnn : kEither) {
    RandomInputs random(7);
    ConvShape s{.batch = 2, .in_channels = 4, .out_channels = 6, .bias = true, .relu = true};
    s.height = s.width = Axis(6, 3, 1, 1, 1);
    s.x_bfloat16 = s.y_bfloat16 = true;
    CheckConvolution(s, Operands::kBfloat16, cudnn, random, 1);
    CheckConvolution(s, Operands::kBfloat16, cudnn, random, 8);
  }
}

TEST_CASE("products of operands that are bfloat16 alone are those of the CPU") {
  for (uint32_t seed = 0; seed < 2 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    const MatmulShape s = random.Product();
    const Floats a = random.Ids(s.batch * s.m * s.k, 9), b = random.Ids(s.batch * s.k * s.n, 200);
    const Floats bias = random.Numbers(s.n);
    Compare([&](ComparedEngine& side) {
      side.ops().AllowOperands(Operands::kBfloat16);
      auto product = side.ops().MakeMatmul(s).value();
      const bool takes = product->takes_bfloat16();
      float* const c = side.New(static_cast<size_t>(s.batch * s.m * s.n));
      for (const auto& [short_a, short_b] :
           {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
        const Tensor pa = side.PutTensor(a, short_a && takes);
        product->Run(pa, side.PutTensor(b, short_b && takes), s.bias ? side.Put(bias) : nullptr, c);
        side.Take(c, s.batch * s.m * s.n);
      }
    });
  }
}

}  // namespace
}  // namespace paracord
