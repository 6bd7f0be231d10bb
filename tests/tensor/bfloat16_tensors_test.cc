// Operations on bfloat16 tensors give the float32 result for equal numbers, rounded once if the
// result is bfloat16.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/cpu/cpu_ops.h"
#include "tensor/round_formulas.h"
#include "tests/tensor/threads.h"

namespace paracord {
namespace {

using Floats = std::vector<float>;

// A tensor of either type.
class Either {
 public:
  Either(bool bfloat16, const Floats& numbers) : floats_(numbers), bfloat16_(bfloat16) {
    for (const float x : numbers) shorts_.push_back(formulas::Bfloat16Bits(x));
  }
  Either(bool bfloat16, size_t n) : Either(bfloat16, Floats(n, std::nanf(""))) {}
  Tensor out() { return bfloat16_ ? Tensor(shorts_.data()) : Tensor(floats_.data()); }
  ConstTensor in() { return out(); }
  // Checks that the tensor equals `wanted` to the bit.
  void Check(const Floats& wanted) const {
    REQUIRE(wanted.size() == floats_.size());
    size_t wrong = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float is = bfloat16_ ? formulas::OfBfloat16(shorts_[i]) : floats_[i];
      const float ought =
          bfloat16_ ? formulas::OfBfloat16(formulas::Bfloat16Bits(wanted[i])) : wanted[i];
      const bool same = std::isnan(ought)
                            ? std::isnan(is)
                            : std::bit_cast<uint32_t>(is) == std::bit_cast<uint32_t>(ought);
      if (!same && ++wrong == 1) UNSCOPED_INFO("element " << i << ": " << is << ", not " << ought);
    }
    CHECK(wrong == 0);
  }

 private:
  Floats floats_;
  std::vector<uint16_t> shorts_;
  bool bfloat16_;
};

// Returns numbers that are exact in bfloat16, of both signs, with zeros.
Floats Numbers(size_t n, uint32_t seed) {
  Floats x(n);
  uint32_t state = seed * 2654435761u + 1;
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int>(state >> 24) - 128) / 32;
  }
  return x;
}
Floats WithOddOnes(Floats x) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < x.size(); i += 97) x[i] = i % 2 == 0 ? kInf : std::nanf("");
  return x;
}

TEST_CASE("operations by element take bfloat16") {
  const auto ops = MakeCpuOps(GENERATE(range(1, kThreadsMost + 1)));
  for (const size_t n : {size_t{1}, size_t{1025}, size_t{70001}}) {
    const Floats a = WithOddOnes(Numbers(n, 1)), b = Numbers(n, 2);
    const auto count = static_cast<int64_t>(n);
    const Walk flat{{count}, {1}, {1}, {1}};
    for (int form = 0; form < 8; ++form) {
      const bool first = (form & 1) != 0, second = (form & 2) != 0, result = (form & 4) != 0;
      CAPTURE(n, first, second, result);
      Either x(first, a), z(second, b);
      for (const BinaryKind kind : {BinaryKind::kAdd, BinaryKind::kAddRelu}) {
        Floats wanted(n);
        ops->Binary(kind, flat, a.data(), b.data(), wanted.data());
        Either y(result, n);
        ops->Binary(kind, flat, x.in(), z.in(), y.out());
        y.Check(wanted);
      }
      for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kSilu,
                                        ActivationKind::kTanh, ActivationKind::kLeakyRelu}) {
        const Activation activation{kind, 0.25f};
        Floats value(n), slope(n);
        ops->Activate(activation, count, 1, a.data(), value.data());
        Either y(result, n);
        ops->Activate(activation, count, 1, x.in(), y.out());
        y.Check(value);
        ops->ActivateBackward(activation, 1, count, a.data(), b.data(), b.data(), slope.data());
        Either dx(first, n);
        ops->ActivateBackward(activation, 1, count, x.in(), z.in(), z.in(), dx.out());
        dx.Check(slope);
        if (kind != ActivationKind::kRelu) continue;
        ops->ActivateBackward(activation, 1, count, nullptr, z.in(), z.in(), z.out());  // in place
        z.Check(slope);
        z = Either(second, b);
      }
      Either copy(result, n);
      ops->Convert(count, x.in(), copy.out());
      copy.Check(a);
      Floats sum(a);
      ops->Add(count, b.data(), sum.data());
      ops->Add(count, z.in(), x.out());
      x.Check(sum);
      REQUIRE(ops->Finish().ok());
    }
  }
}

// The walk does not reach every element of y.
TEST_CASE("operations along a walk take bfloat16") {
  const auto ops = MakeCpuOps(GENERATE(range(1, kThreadsMost + 1)));
  constexpr int64_t kRows = 37, kColumns = 2049;
  constexpr size_t kAll = kRows * kColumns;
  const Floats a = WithOddOnes(Numbers(kAll, 1)), b = Numbers(kAll, 2), before = Numbers(kAll, 3);
  const std::vector<int64_t> all{kRows, kColumns}, dense{kColumns, 1};
  const std::vector<Walk> walks = {
      {all, dense, dense, dense},                     // contiguous
      {{kRows, kColumns - 5}, dense, {0, 1}, dense},  // a part; one row for all rows
      {all, dense, {1, 0}, dense},                    // one number for each row
      {{kColumns, kRows}, {1, kColumns}, {1, kColumns}, {kRows, 1}},  // transposed
      {{3, kRows, 2, 5}, {0, kColumns, 7, 1}, {5, kColumns, 0, 2}, {900, 20, 10, 2}},
  };
  for (const Walk& walk : walks) {
    for (int form = 0; form < 8; ++form) {
      const bool first = (form & 1) != 0, second = (form & 2) != 0, result = (form & 4) != 0;
      CAPTURE(walk.dims, first, second, result);
      Either x(first, a), z(second, b), y(result, before);
      Floats wanted = before;
      ops->Binary(BinaryKind::kMultiply, walk, a.data(), b.data(), wanted.data());
      ops->Binary(BinaryKind::kMultiply, walk, x.in(), z.in(), y.out());
      y.Check(wanted);
      const Walk copy{walk.dims, walk.a, {}, walk.y};
      Floats copied = before;
      ops->Copy(copy, false, a.data(), copied.data());
      Either to(result, before);
      ops->Copy(copy, false, x.in(), to.out());
      to.Check(copied);
    }
  }
  // Sums by row and by column, rounded only at the end.
  for (const Walk& walk : {Walk{all, dense, {}, {1, 0}}, Walk{all, dense, {}, {0, 1}}}) {
    Floats sums = before;
    ops->Copy(walk, true, b.data(), sums.data());
    for (int form = 0; form < 4; ++form) {
      Either x((form & 1) != 0, b), y((form & 2) != 0, before);
      ops->Copy(walk, true, x.in(), y.out());
      y.Check(sums);
    }
  }
  for (const bool bfloat16 : {false, true}) {
    Either filled(bfloat16, before);
    ops->Fill(1001, 0.3f, filled.out() + 3);
    Floats wanted = before;
    std::fill_n(wanted.begin() + 3, 1001, 0.3f);
    filled.Check(wanted);
    for (const bool from : {false, true}) {
      Floats dropped(kAll);
      ops->Dropout(7, 0.25f, 5, kAll, b.data(), dropped.data());
      Either x(from, b), y(bfloat16, kAll);
      ops->Dropout(7, 0.25f, 5, kAll, x.in(), y.out());
      y.Check(dropped);
      ops->Dropout(7, 0.25f, 5, kAll, x.in(), x.out());
      x.Check(dropped);
    }
  }
  REQUIRE(ops->Finish().ok());
}

TEST_CASE("normalisations of columns take bfloat16") {
  const auto ops = MakeCpuOps(GENERATE(range(1, kThreadsMost + 1)));
  for (const auto& [rows, columns, relu] :
       {std::tuple<int64_t, int64_t, float>{300, 5, 0}, {7, 64, 6}, {1, 33, 0}, {513, 48, 3e38f}}) {
    const auto n = static_cast<size_t>(rows * columns), each = static_cast<size_t>(columns);
    NormShape s{.by_column = true, .rows = rows, .columns = columns, .epsilon = 1e-3f};
    const Floats x = Numbers(n, 1), dy = Numbers(n, 2);
    const Floats scale = Numbers(each, 3), offset = Numbers(each, 4);
    Floats mean(each), variance(each);
    ops->Moments(s, x.data(), mean.data(), variance.data());
    Either same(true, x);
    Floats mean_too(each), variance_too(each);
    ops->Moments(s, same.in(), mean_too.data(), variance_too.data());
    CHECK(mean_too == mean);
    CHECK(variance_too == variance);
    s.relu = relu;
    for (int form = 0; form < 4; ++form) {
      const bool in = (form & 1) != 0, out = (form & 2) != 0;
      CAPTURE(rows, columns, relu, in, out);
      Either from(in, x), d_to(out, dy);
      Floats wanted(n);
      ops->Normalize(s, x.data(), mean.data(), variance.data(), scale.data(), offset.data(),
                     wanted.data());
      Either to(out, n);
      ops->Normalize(s, from.in(), mean.data(), variance.data(), scale.data(), offset.data(),
                     to.out());
      to.Check(wanted);
      for (const bool constant : {false, true}) {
        Floats dx(n), dscale(each), doffset(each), dscale_too(each), doffset_too(each);
        ops->NormalizeBackward(s, constant, x.data(), mean.data(), variance.data(), scale.data(),
                               offset.data(), dy.data(), dx.data(), dscale.data(), doffset.data());
        Either d_from(in, n);
        ops->NormalizeBackward(s, constant, from.in(), mean.data(), variance.data(), scale.data(),
                               offset.data(), d_to.in(), d_from.out(), dscale_too.data(),
                               doffset_too.data());
        d_from.Check(dx);
        CHECK(dscale_too == dscale);
        CHECK(doffset_too == doffset);
      }
      ops->NormalizeBackward(s, false, from.in(), mean.data(), variance.data(), scale.data(),
                             offset.data(), d_to.in(), nullptr, nullptr, mean_too.data());
      REQUIRE(ops->Finish().ok());
    }
  }
}

TEST_CASE("pooling takes bfloat16") {
  const auto ops = MakeCpuOps(GENERATE(range(1, kThreadsMost + 1)));
  const WindowAxis over{.in = 9, .out = 5, .size = 3, .stride = 2, .pad_before = 1, .pad_after = 1};
  const WindowAxis all{.in = 9, .out = 1, .size = 9, .stride = 9};
  for (const bool max : {true, false}) {
    for (const WindowAxis& axis : {over, all}) {
      for (const int64_t channels : {int64_t{3}, int64_t{1100}}) {
        const PoolShape s{max, 2, channels, axis, axis};
        const auto in = static_cast<size_t>(2 * channels * axis.in * axis.in);
        const auto out = static_cast<size_t>(2 * channels * axis.out * axis.out);
        const Floats x = Numbers(in, 1), dy = Numbers(out, 2);
        Floats y(out), dx(in);
        const auto pool = ops->MakePool2D(s).value();
        pool->Forward(x.data(), y.data());
        pool->Backward(dy.data(), dx.data());
        for (int form = 0; form < 4; ++form) {
          CAPTURE(max, axis.out, channels, form);
          Either from((form & 1) != 0, x), d_to((form & 2) != 0, dy);
          Either to((form & 2) != 0, out), d_from((form & 1) != 0, in);
          pool->Forward(from.in(), to.out());
          to.Check(y);
          pool->Backward(d_to.in(), d_from.out());
          d_from.Check(dx);
        }
      }
    }
  }
}

// Returns small integers, so that products and sums are exact in any implementation.
Floats WholeNumbers(size_t n, uint32_t seed) {
  Floats x = Numbers(n, seed);
  for (float& v : x) v = std::trunc(v);
  return x;
}

struct ConvCase {
  int64_t in_channels, out_channels, groups, side, size, stride;
};

TEST_CASE("convolutions take bfloat16") {
  const auto ops = MakeCpuOps(GENERATE(range(1, kThreadsMost + 1)));
  for (const ConvCase& c :
       {ConvCase{32, 64, 1, 8, 3, 1},
        {3, 5, 1, 7, 3, 2},
        {64, 32, 1, 6, 1, 2},
        {8, 8, 8, 5, 3, 1},
        {32, 32, 1, 1, 3, 1},  // a tap without a pixel, not computed in bfloat16
        {16, 48, 1, 16, 3, 1}}) {
    const int64_t outs = (c.side - 1) / c.stride + 1, pad = c.size / 2;
    const WindowAxis axis{.in = c.side,
                          .out = outs,
                          .size = c.size,
                          .stride = c.stride,
                          .pad_before = pad,
                          .pad_after = pad};
    ConvShape s{.batch = 3,
                .in_channels = c.in_channels,
                .out_channels = c.out_channels,
                .groups = c.groups,
                .height = axis,
                .width = axis,
                .bias = true,
                .relu = c.size == 3};
    const auto ins = static_cast<size_t>(3 * c.side * c.side * c.in_channels);
    const auto all = static_cast<size_t>(3 * outs * outs * c.out_channels);
    const auto taps =
        static_cast<size_t>(c.size * c.size * c.in_channels / c.groups * c.out_channels);
    const Floats x = WholeNumbers(ins, 1), kernel = WholeNumbers(taps, 2),
                 dy = WholeNumbers(all, 3);
    const Floats bias = WholeNumbers(static_cast<size_t>(c.out_channels), 4);
    Floats y(all), dx(ins), dkernel(taps), dbias(bias.size());
    ops->AllowOperands(Operands::kFloat32);
    const auto exact = ops->MakeConv2D(s).value();
    exact->Forward(x.data(), kernel.data(), bias.data(), y.data());
    exact->Backward({dy.data(), dkernel.data(), dbias.data(), x.data(), dx.data(), kernel.data()});
    for (const Operands operands : {Operands::kBfloat16, Operands::kFloat32}) {
      ops->AllowOperands(operands);
      for (int form = 0; form < 4; ++form) {
        CAPTURE(c.in_channels, c.out_channels, c.size, c.stride, form);
        s.x_bfloat16 = (form & 1) != 0;
        s.y_bfloat16 = (form & 2) != 0;
        Either from(s.x_bfloat16, x), d_to(s.y_bfloat16, dy);
        Either to(s.y_bfloat16, all), d_from(s.x_bfloat16, ins);
        Floats dkernel_too(taps), dbias_too(bias.size());
        const auto conv = ops->MakeConv2D(s).value();
        conv->Forward(from.in(), kernel.data(), bias.data(), to.out());
        conv->Backward({d_to.in(), dkernel_too.data(), dbias_too.data(), from.in(), d_from.out(),
                        kernel.data()});
        REQUIRE(ops->Finish().ok());
        to.Check(y);
        d_from.Check(dx);
        CHECK(dkernel_too == dkernel);
        CHECK(dbias_too == dbias);
        conv->Backward({.dy = d_to.in(), .dx = d_from.out(), .kernel = kernel.data()});
        d_from.Check(dx);
        REQUIRE(ops->Finish().ok());
      }
    }
  }
}

}  // namespace
}  // namespace paracord
