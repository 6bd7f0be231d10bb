// The loops of the CPU's operations over several threads.
#include <catch2/catch.hpp>
#include <functional>
#include <span>
#include <vector>

#include "common/mix.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {
namespace {

using Values = std::vector<float>;

Values Noise(int64_t n, uint64_t seed) {
  Values values;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = Mix64(seed, static_cast<uint64_t>(i)) >> 40;
    values.push_back(static_cast<float>(bits) / 4194304.f - 2.f);
  }
  return values;
}

// Large enough for every number of threads, and not divisible by them.
constexpr int64_t kRows = 67, kColumns = 1531, kAll = kRows * kColumns;

#ifdef __SANITIZE_THREAD__
constexpr int kThreadCounts[] = {1};  // TSan does not understand how libgomp's threads synchronise
#else
constexpr int kThreadCounts[] = {1, 2, 3, 16};
#endif

// Computes an operation into `y`, which the operation may also read.
using Operation = std::function<void(Ops& ops, float* y)>;

void SameForAnyThreads(const char* name, const Operation& operation) {
  INFO(name);
  Values expected;
  for (const int threads : kThreadCounts) {
    const auto ops = MakeCpuOps(threads);
    ops->Enter();
    Values y = Noise(kAll, 9);
    operation(*ops, y.data());
    REQUIRE(ops->Finish().ok());
    if (threads == 1) expected = y;
    CHECK(y == expected);
  }
  CHECK(expected != Noise(kAll, 9));
}

TEST_CASE("loops give the same bits with any number of threads") {
  const Values x = Noise(kAll, 1), dy = Noise(kAll, 2);
  const float* px = x.data();
  const float* pd = dy.data();
  for (const ActivationKind kind :
       {ActivationKind::kRelu, ActivationKind::kTanh, ActivationKind::kSoftmax}) {
    SameForAnyThreads("activation",
                      [&](Ops& ops, float* y) { ops.Activate({kind}, kRows, kColumns, px, y); });
    SameForAnyThreads("its gradient, in place", [&](Ops& ops, float* y) {
      ops.ActivateBackward({kind}, kRows, kColumns, px, px, y, y);
    });
  }
  SameForAnyThreads("affine", [&](Ops& ops, float* y) { ops.Affine(kAll, 3, 1, px, y); });
  SameForAnyThreads("add", [&](Ops& ops, float* y) { ops.Add(kAll, px, y); });
  SameForAnyThreads("sum", [&](Ops& ops, float* y) { ops.SumRows(kRows, kColumns, px, y); });
  SameForAnyThreads("dropout", [&](Ops& ops, float* y) { ops.Dropout(5, 0.3f, 11, kAll, px, y); });
  SameForAnyThreads("rounding", [&](Ops& ops, float* y) {
    ops.Convert(kAll, px, Tensor(reinterpret_cast<uint16_t*>(y)));
  });
  SameForAnyThreads("transpose", [&](Ops& ops, float* y) {
    ops.Copy({{kColumns, kRows}, {1, kColumns}, {}, {kRows, 1}}, false, px, y);
  });
  SameForAnyThreads("reduction", [&](Ops& ops, float* y) {
    ops.Copy({{kRows, kColumns}, {kColumns, 1}, {}, {0, 1}}, true, px, y);
  });
  SameForAnyThreads("broadcast", [&](Ops& ops, float* y) {
    ops.Binary(BinaryKind::kMultiply, {{kRows, kColumns}, {kColumns, 1}, {0, 1}, {kColumns, 1}}, px,
               pd, y);
  });
  const ResampleShape images{3, 17, {30, 40, 2, 25}, {29, 41, -3, 36}};
  SameForAnyThreads("resizing", [&](Ops& ops, float* y) { ops.Resample(images, nullptr, px, y); });
  SameForAnyThreads("its gradient", [&](Ops& ops, float* y) { ops.ResizeBackward(images, pd, y); });
  SameForAnyThreads("moved images", [&](Ops& ops, float* y) {
    std::vector<float> maps(18);
    ops.RandomMaps(5, {MapKind::kRotate, 30, 29, {-90, 0}, {90, 0}}, 0, 3, maps.data());
    ops.Resample(images, maps.data(), px, y);
  });
  const SoftmaxShape scores{.batch = 17, .heads = 3, .queries = 40, .keys = 50, .causal = true};
  SameForAnyThreads("softmax",
                    [&](Ops& ops, float* y) { ops.MaskedSoftmax(scores, nullptr, px, y); });
  SameForAnyThreads("its gradient", [&](Ops& ops, float* y) {
    ops.MaskedSoftmaxBackward(scores, nullptr, px, pd, y);
  });
}

TEST_CASE("pooling gives the same bits with any number of threads") {
  for (const bool max : {true, false}) {
    const WindowAxis rows{.in = 40, .out = 20, .size = 3, .stride = 2, .pad_after = 1};
    const WindowAxis columns{
        .in = 41, .out = 41, .size = 3, .dilation = 2, .pad_before = 2, .pad_after = 2};
    const PoolShape shape{max, 3, 17, rows, columns};
    constexpr int64_t kIn = 3 * 40 * 41 * 17, kOut = 3 * 20 * 41 * 17;
    const Values x = Noise(kIn, 1), dy = Noise(kOut, 2);
    std::vector<Values> expected;
    for (const int threads : kThreadCounts) {
      const auto ops = MakeCpuOps(threads);
      ops->Enter();
      auto pool = ops->MakePool2D(shape);
      REQUIRE(pool.ok());
      Values y(kOut), dx = Noise(kIn, 3);
      (*pool)->Forward(x.data(), y.data());
      (*pool)->Backward(dy.data(), dx.data());
      REQUIRE(ops->Finish().ok());
      if (threads == 1) expected = {y, dx};
      CHECK(std::vector<Values>{y, dx} == expected);
    }
    CHECK(expected[0] != Values(kOut));
    double given = 0, taken = 0;
    for (const float d : dy) given += d;
    for (const float d : expected[1]) taken += d;
    CHECK(taken == Approx(given).margin(0.01));
  }
}

TEST_CASE("norms give the same bits with any number of threads") {
  const Values x = Noise(kAll, 1), dy = Noise(kAll, 2);
  for (const bool by_column : {true, false}) {
    const NormShape shape{by_column, kRows, kColumns, 1e-3f, true, by_column ? 1.f : 0.f};
    const auto groups = static_cast<size_t>(by_column ? kColumns : kRows);
    std::vector<Values> expected;
    for (const int threads : kThreadCounts) {
      const auto ops = MakeCpuOps(threads);
      ops->Enter();
      const Values scale = Noise(kColumns, 3), offset = Noise(kColumns, 4);
      Values mean(groups), variance(groups), y(kAll), dx(kAll), dscale(kColumns), doffset(kColumns);
      ops->Moments(shape, x.data(), mean.data(), variance.data());
      ops->Normalize(shape, x.data(), mean.data(), variance.data(), scale.data(), offset.data(),
                     y.data());
      ops->NormalizeBackward(shape, false, x.data(), mean.data(), variance.data(), scale.data(),
                             offset.data(), dy.data(), dx.data(), dscale.data(), doffset.data());
      REQUIRE(ops->Finish().ok());
      const std::vector<Values> all = {mean, variance, y, dx, dscale, doffset};
      if (threads == 1) expected = all;
      CHECK(all == expected);
    }
    for (const Values& result : expected) CHECK(result != Values(result.size()));
  }
}

TEST_CASE("a recurrent step gives the same bits with any number of threads") {
  constexpr int64_t kBatch = 67, kUnits = 190, kState = kBatch * kUnits;
  CellShape shape{CellKind::kLstm, kBatch, kUnits, {ActivationKind::kTanh}, {}};
  shape.recurrent_activation.kind = ActivationKind::kSigmoid;
  Values mask(kBatch, 1);
  mask[40] = 0;
  std::vector<Values> expected;
  for (const int threads : kThreadCounts) {
    const auto ops = MakeCpuOps(threads);
    ops->Enter();
    const Values h0 = Noise(kState, 1), c0 = Noise(kState, 2), r = Noise(4 * kState, 3);
    Values z = Noise(4 * kState, 4), kept(5 * kState), h(kState), c(kState);
    Values dh = Noise(kState, 5), dc = Noise(kState, 6), dz(4 * kState);
    CellStep step;
    step.mask = mask.data();
    step.h0 = h0.data();
    step.c0 = c0.data();
    step.z = z.data();
    step.kept = kept.data();
    step.h = h.data();
    step.c = c.data();
    ops->CellForward(shape, step, r.data());
    ops->CellBackward(shape, step, dh.data(), dc.data(), dz.data(), dz.data());
    REQUIRE(ops->Finish().ok());
    const std::vector<Values> all = {z, kept, h, c, dh, dc, dz};
    if (threads == 1) expected = all;
    CHECK(all == expected);
  }
  CHECK(expected[2] != Values(kState));
}

}  // namespace
}  // namespace paracord
