// Every operation of Ops on both engines, with random shapes.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/cuda_host/both_engines.h"
#include "tests/keras/model_testing.h"

namespace paracord {
namespace {

TEST_CASE("activations and their gradients are those of the CPU") {
  for (int kind = 0; kind <= static_cast<int>(ActivationKind::kCosh); ++kind) {
    if (kind == static_cast<int>(ActivationKind::kGlu)) continue;
    for (uint32_t seed = 0; seed < 3; ++seed) {
      INFO("kind " << kind << " seed " << seed);
      RandomInputs random(seed);
      const int64_t rows = random.Size(40), columns = random.Size(seed == 2 ? 900 : 30);
      const Activation p{static_cast<ActivationKind>(kind), 0.3f, 1.5f, 0.1f};
      const bool positive = p.kind == ActivationKind::kPower || p.kind == ActivationKind::kLog ||
                            p.kind == ActivationKind::kLog1p;
      const Floats x = random.Numbers(rows * columns, positive ? 0.1f : -4, 4);
      const Floats dy = random.Numbers(rows * columns);
      Compare([&](ComparedEngine& side) {
        const int64_t n = rows * columns;
        float *dx = side.Put(x), *d = side.Put(dy), *y = side.New(x.size());
        side.ops().Activate(p, rows, columns, dx, y);
        side.Take(y, n);
        side.ops().ActivateBackward(p, rows, columns, dx, y, d, d);
        side.Take(d, n);
        side.ops().Activate(p, rows, columns, dx, dx);
        side.Take(dx, n);
      });
    }
  }
}

TEST_CASE("products are those of the CPU, transposed, in batches, with bias and ReLU") {
  for (uint32_t seed = 0; seed < 4 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    const MatmulShape s = random.Product();
    const Floats a = random.Numbers(s.batch * s.m * s.k), b = random.Numbers(s.batch * s.k * s.n);
    const Floats bias = random.Numbers(s.n);
    Compare([&](ComparedEngine& side) {
      auto product = side.ops().MakeMatmul(s).value();
      float* c = side.New(static_cast<size_t>(s.batch * s.m * s.n));
      product->Run(side.Put(a), side.Put(b), s.bias ? side.Put(bias) : nullptr, c);
      side.Take(c, s.batch * s.m * s.n);
    });
  }
}

WindowAxis RandomAxis(RandomInputs& random, bool dilate) {
  WindowAxis axis;
  axis.in = 3 + random.Size(9);
  axis.size = random.Size(3);
  axis.stride = random.Size(3);
  if (dilate && axis.stride == 1) axis.dilation = random.Size(2);
  const int64_t reach = (axis.size - 1) * axis.dilation + 1;
  if (random.Coin()) {  // "same"
    axis.out = (axis.in + axis.stride - 1) / axis.stride;
    const int64_t pad = std::max<int64_t>((axis.out - 1) * axis.stride + reach - axis.in, 0);
    axis.pad_before = pad / 2;
    axis.pad_after = pad - pad / 2;
  } else {
    axis.out = (axis.in - reach) / axis.stride + 1;
  }
  return axis;
}

TEST_CASE("convolutions are those of the CPU, by cuDNN and without it") {
  for (uint32_t seed = 0; seed < 6 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    ConvShape s;
    s.groups = random.Coin() ? 1 : random.Size(3);
    s.batch = random.Size(3);
    s.in_channels = s.groups * random.Size(4);
    s.out_channels = s.groups * random.Size(5);
    s.height = RandomAxis(random, true);
    s.width = RandomAxis(random, true);
    s.bias = random.Coin();
    s.relu = random.Coin();
    const int64_t in = s.inputs();
    const int64_t out = s.outputs();
    const int64_t size = s.height.size * s.width.size * s.in_channels / s.groups * s.out_channels;
    const Floats x = random.Numbers(in), kernel = random.Numbers(size), dy = random.Numbers(out);
    const Floats bias = random.Numbers(s.out_channels);
    size_t before[4] = {};  // offsets as in slices of a batch
    for (size_t& floats : before) floats = seed % 3 == 0 ? static_cast<size_t>(random.Size(5)) : 0;
    for (const bool cudnn : {true, false}) {
      Compare(
          [&](ComparedEngine& side) {
            // Padding that differs between both ends then takes another path.
            const bool tf32 = !OnGpu() && seed % 2 == 1;
            side.ops().AllowOperands(tf32 ? Operands::kTf32 : Operands::kFloat32);
            auto conv = side.ops().MakeConv2D(s).value();
            float *px = side.Put(x, before[0]), *pk = side.Put(kernel), *pb = side.Put(bias);
            float *pdy = side.Put(dy, before[1]), *y = side.New(dy.size(), before[2]);
            float* dx = side.New(x.size(), before[3]);
            float *dk = side.New(kernel.size()), *db = side.New(bias.size());
            conv->Forward(px, pk, pb, y);
            side.Take(y, out);
            conv->Backward({.dy = pdy, .dx = dx, .kernel = pk});
            side.Take(dx, in);
            conv->Backward({.dy = pdy, .dkernel = dk, .dbias = db, .x = px});
            side.Take(dk, size);
            if (s.bias) side.Take(db, s.out_channels);
          },
          cudnn);
    }
  }
}

TEST_CASE("pooling is that of the CPU, among equal maxima too") {
  for (uint32_t seed = 0; seed < 6 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    PoolShape s{random.Coin(), random.Size(3), random.Size(5), RandomAxis(random, false),
                RandomAxis(random, false)};
    if (seed == 2) s.max = false;
    // Summed in parts.
    if (seed == 2) s.width = {.in = 1500, .out = 1, .size = 1500, .stride = 1500};
    // Several channels for a thread, or one.
    if (seed % 3 == 1) s.channels = 32 + 4 * random.Size(2) - seed % 2;
    const int64_t in = s.batch * s.height.in * s.width.in * s.channels;
    const int64_t out = s.batch * s.height.out * s.width.out * s.channels;
    const Floats x = random.Coin() ? random.Numbers(in) : random.Ids(in, 3);
    const Floats dy = random.Numbers(out);
    Compare([&](ComparedEngine& side) {
      auto pool = side.ops().MakePool2D(s).value();
      float *y = side.New(dy.size()), *dx = side.New(x.size());
      pool->Forward(side.Put(x), y);
      side.Take(y, out);
      pool->Backward(side.Put(dy), dx);
      side.Take(dx, in);
    });
  }
}

TEST_CASE("sums, scalings and random numbers are those of the CPU") {
  for (uint32_t seed = 0; seed < kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    const int64_t rows = random.Size(seed == 0 ? 30000 : 50), columns = random.Size(70);
    const int64_t n = rows * columns;
    const Floats x = random.Numbers(n), y = random.Numbers(n);
    Compare([&](ComparedEngine& side) {
      Ops& ops = side.ops();
      float *px = side.Put(x), *py = side.Put(y), *sums = side.New(static_cast<size_t>(columns));
      ops.SumRows(rows, columns, px, sums);
      side.Take(sums, columns);
      ops.Affine(n, 1.5f, -0.25f, px, px);
      ops.Add(n, px, py);
      side.Take(py, n);
      ops.Dropout(seed + 5, 0.3f, 11, n, py, py);
      side.Take(py, n);
      ops.AddNoise(seed + 5, 0.7f, 3, n, py, py);
      side.Take(py, n);
      side.TakeNumber([&](double* sum) { ops.Penalty(n, 0.1f, 0.2f, px, 0.5f, py, sum); });
      side.Take(py, n);
      side.TakeNumber([&](double* sum) { ops.Penalty(n, 0.f, 0.2f, px, 0.f, nullptr, sum); });
      ops.Penalty(n, 0.1f, 0.f, px, 2.f, py, nullptr);
      side.Take(py, n);
      ops.Fill(n, 3.f, py);
      side.Take(py, n);
    });
  }
}

TEST_CASE("matrices of any size are transposed, one after the other, and nothing beside them") {
  for (uint32_t seed = 0; seed < 4 * kRounds; ++seed) {
    RandomInputs random(seed);
    const int64_t count = random.Size(3), rows = random.Size(40), columns = random.Size(40);
    CAPTURE(count, rows, columns);
    const int64_t each = rows * columns, all = count * each;
    const Floats x = random.Numbers(all), before = random.Numbers(all + 3);
    Compare([&](ComparedEngine& side) {
      float* const y = side.Put(before);
      side.ops().Copy({{count, columns, rows}, {each, 1, columns}, {}, {each, rows, 1}}, false,
                      side.Put(x), y);
      side.Take(y, all + 3);
    });
  }
}

TEST_CASE("walks are those of the CPU: transposes, broadcasts, sums, many axes") {
  for (uint32_t seed = 0; seed < 8 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    const size_t axes = seed % 11 == 10 ? 10 : static_cast<size_t>(random.Size(5));
    Walk walk;
    int64_t all = 1;
    for (size_t i = 0; i < axes; ++i) {
      walk.dims.push_back(axes == 10 ? 2 : random.Size(seed == 3 ? 60 : 7));
      all *= walk.dims.back();
    }
    if (all > 200000) continue;
    walk.a = random.Steps(walk.dims, true);
    walk.b = random.Steps(walk.dims, true);
    walk.y = random.Steps(walk.dims, false);
    Walk sum = walk;
    sum.b.clear();
    sum.y = random.Steps(walk.dims, true);
    const Floats a = random.Numbers(all, 0.5f, 2), b = random.Numbers(all, 0.5f, 2);
    const Floats y = random.Numbers(all), around_zero = random.Numbers(all);
    Floats mask = b;
    for (size_t i = 0; i < mask.size(); i += 3) mask[i] = 0;
    Compare([&](ComparedEngine& side) {
      Ops& ops = side.ops();
      float *pa = side.Put(a), *pb = side.Put(b), *py = side.Put(y);
      for (int kind = 0; kind < static_cast<int>(BinaryKind::kKeep); ++kind) {
        ops.Binary(static_cast<BinaryKind>(kind), walk, pa, pb, py);
        side.Take(py, all);
      }
      ops.Binary(BinaryKind::kKeep, walk, pa, side.Put(mask), py);
      side.Take(py, all);
      ops.Binary(BinaryKind::kAddRelu, walk, side.Put(y), side.Put(around_zero), py);
      side.Take(py, all);
      Walk copy = walk;
      copy.b.clear();
      ops.Copy(copy, false, pa, py);
      side.Take(py, all);
      ops.Copy(copy, true, pa, py);
      side.Take(py, all);
      ops.Copy(sum, true, pa, py);
      side.Take(py, all);
    });
  }
}

TEST_CASE("normalisation and its gradients are those of the CPU") {
  for (uint32_t seed = 0; seed < 4 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    NormShape s{random.Coin(), random.Size(seed == 0 ? 20000 : 60), random.Size(40), 1e-3f};
    s.centred = s.by_column || random.Coin();
    if (s.by_column && random.Coin()) s.relu = random.Coin() ? 1.f : 3e38f;
    const bool constant = random.Coin(), scaled = random.Coin();
    const int64_t n = s.rows * s.columns, groups = s.by_column ? s.columns : s.rows;
    const Floats x = random.Numbers(n, 3, 5), dy = random.Numbers(n);
    const Floats scale = random.Numbers(s.columns), offset = random.Numbers(s.columns);
    Compare([&](ComparedEngine& side) {
      Ops& ops = side.ops();
      const auto wide = static_cast<size_t>(s.columns), many = static_cast<size_t>(groups);
      float *px = side.Put(x), *pdy = side.Put(dy), *y = side.New(x.size());
      float *mean = side.New(many), *variance = side.New(many), *dx = side.New(x.size());
      float *ps = scaled ? side.Put(scale) : nullptr, *po = scaled ? side.Put(offset) : nullptr;
      float *ds = scaled ? side.New(wide) : nullptr, *d_o = scaled ? side.New(wide) : nullptr;
      ops.Moments(s, px, mean, variance);
      side.Take(mean, groups);
      side.Take(variance, groups);
      ops.Normalize(s, px, mean, variance, ps, po, y);
      side.Take(y, n);
      ops.NormalizeBackward(s, constant, px, mean, variance, ps, po, pdy, dx, ds, d_o);
      side.Take(dx, n);
      if (scaled) side.Take(ds, s.columns);
      if (scaled) side.Take(d_o, s.columns);
      ops.NormalizeBackward(s, constant, px, mean, variance, ps, po, pdy, nullptr, ds, nullptr);
    });
  }
}

TEST_CASE("gathers and scatters are those of the CPU, of ids outside of the table too") {
  for (uint32_t seed = 0; seed < 2 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    const int64_t count = random.Size(seed == 1 ? 3000 : 40), width = random.Size(9);
    const int64_t rows = random.Size(12);
    Floats ids = random.Ids(count, rows + 2);
    if (random.Coin()) ids[0] = -1;
    const Floats table = random.Numbers(rows * width), dy = random.Numbers(count * width);
    Compare([&](ComparedEngine& side) {
      float *y = side.New(dy.size()), *d = side.New(table.size()), *pi = side.Put(ids);
      side.ops().Gather(count, width, rows, pi, side.Put(table), y);
      side.Take(y, count * width);
      side.ops().ScatterAdd(count, width, rows, pi, side.Put(dy), d);
      side.Take(d, rows * width);
    });
  }
}

TEST_CASE("recurrent steps are those of the CPU, masked, with any activation") {
  const CellKind kinds[] = {CellKind::kSimple, CellKind::kLstm, CellKind::kGru, CellKind::kGruGates,
                            CellKind::kGruCandidate};
  const int64_t gates[] = {1, 4, 3, 3, 3}, kept[] = {0, 5, 4, 4, 4}, product[] = {1, 4, 3, 2, 1};
  const ActivationKind activations[] = {ActivationKind::kTanh,      ActivationKind::kSigmoid,
                                        ActivationKind::kSoftmax,   ActivationKind::kAffine,
                                        ActivationKind::kSparsemax, ActivationKind::kLogSoftmax};
  for (uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    const size_t kind = seed % 5;
    CellShape s{kinds[kind],
                random.Size(6),
                random.Size(20),
                {activations[random.engine()() % 6], 0.5f, 0.1f, 0},
                {activations[random.engine()() % 3], 0.5f, 0.1f, 0}};
    const int64_t state = s.batch * s.units;
    const Floats h0 = random.Numbers(state), c0 = random.Numbers(state), dh = random.Numbers(state);
    const Floats z = random.Numbers(state * gates[kind]), r = random.Numbers(state * product[kind]);
    const Floats dc = random.Numbers(state), keep = random.Numbers(state * 5, 0.1f, 0.9f);
    const Floats dz = random.Numbers(state * gates[kind]), mask = random.Ids(s.batch, 2);
    const bool masked = random.Coin(), lstm = s.kind == CellKind::kLstm;
    Compare([&](ComparedEngine& side) {
      CellStep step;
      if (masked) step.mask = side.Put(mask);
      step.h0 = side.Put(h0);
      float *pz = side.Put(z), *h = side.New(h0.size()), *c = side.New(h0.size());
      float *pk = side.Put(keep), *pdz = side.Put(dz), *pdh = side.Put(dh), *pdc = side.Put(dc);
      float* dr = side.Put(r);
      step.z = pz;
      step.h = h;
      if (kept[kind] > 0) step.kept = pk;
      if (lstm) step.c0 = side.Put(c0), step.c = c;
      side.ops().CellForward(s, step, side.Put(r));
      side.Take(h, state);
      side.Take(pz, state * gates[kind]);
      if (lstm) side.Take(c, state);
      side.ops().CellBackward(s, step, pdh, pdc, pdz, lstm || kind == 0 ? pdz : dr);
      side.Take(pdh, state);
      side.Take(pdc, state);
      side.Take(pdz, state * gates[kind]);
      side.Take(dr, state * product[kind]);
    });
  }
}

TEST_CASE("softmax under masks is that of the CPU, of rows that see nothing too") {
  for (uint32_t seed = 0; seed < 4 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    SoftmaxShape s{random.Size(3), random.Size(3), random.Size(6),
                   random.Size(seed == 2 ? 700 : 9)};
    s.scale = 0.4f;
    s.causal = random.Coin();
    s.masked = static_cast<MaskedScore>(seed % 3);
    const bool masked = random.Coin();
    const int64_t n = s.batch * s.heads * s.queries * s.keys;
    const Floats x = random.Numbers(n), dy = random.Numbers(n);
    Floats mask = random.Ids(s.batch * s.queries * s.keys, 2);
    std::fill_n(mask.begin(), s.keys, 0.f);
    Compare([&](ComparedEngine& side) {
      float *y = side.Put(x), *d = side.Put(dy), *pm = masked ? side.Put(mask) : nullptr;
      side.ops().MaskedSoftmax(s, pm, y, y);
      side.Take(y, n);
      side.ops().MaskedSoftmaxBackward(s, pm, y, d, d);
      side.Take(d, n);
    });
  }
}

ResampleShape RandomResample(RandomInputs& random) {
  ResampleShape s;
  s.batch = random.Size(3);
  s.channels = random.Size(4);
  for (ResampleAxis* axis : {&s.height, &s.width}) {
    *axis = {random.Size(9), random.Size(12)};
    axis->begin = random.Size(5) - 3;
    axis->size = random.Size(11);
  }
  s.bilinear = random.Coin();
  s.fill_value = 0.75f;
  return s;
}

TEST_CASE("images are resized as on the CPU, of parts of them and with some around") {
  for (uint32_t seed = 0; seed < 8 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    const ResampleShape s = RandomResample(random);
    const int64_t in = s.batch * s.height.in * s.width.in * s.channels;
    const int64_t out = s.batch * s.height.out * s.width.out * s.channels;
    const Floats x = random.Numbers(in), dy = random.Numbers(out);
    Compare([&](ComparedEngine& side) {
      float *y = side.New(dy.size()), *dx = side.New(x.size());
      side.ops().Resample(s, nullptr, side.Put(x), y);
      side.Take(y, out);
      side.ops().ResizeBackward(s, side.Put(dy), dx);
      side.Take(dx, in);
    });
  }
}

TEST_CASE("images are moved by maps as on the CPU, to whatever places") {
  for (uint32_t seed = 0; seed < 8 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    ResampleShape s = RandomResample(random);
    s.fill = static_cast<FillMode>(seed % 4);
    const int64_t in = s.batch * s.height.in * s.width.in * s.channels;
    const int64_t out = s.batch * s.height.out * s.width.out * s.channels;
    const Floats x = random.Numbers(in);
    Floats maps = random.Numbers(6 * s.batch, -3, 3);
    const Floats no_places{1e30f, -1e30f, 5e8f, HUGE_VALF, NAN, 0};
    if (seed % 5 == 0) std::copy(no_places.begin(), no_places.end(), maps.begin());
    Compare([&](ComparedEngine& side) {
      float* y = side.New(static_cast<size_t>(out));
      side.ops().Resample(s, side.Put(maps), side.Put(x), y);
      side.Take(y, out);
    });
  }
}

TEST_CASE("uniform numbers and maps of examples are those of the CPU") {
  for (uint32_t seed = 0; seed < 2 * kRounds; ++seed) {
    INFO("seed " << seed);
    RandomInputs random(seed);
    const int64_t n = random.Size(900), batch = random.Size(seed == 0 ? 3000 : 40);
    for (int kind = 0; kind <= static_cast<int>(MapKind::kShift); ++kind) {
      RandomMap map{static_cast<MapKind>(kind),
                    random.Size(40),
                    random.Size(40),
                    {-0.9f, -0.5f},
                    {3, 0.75f},
                    random.Coin(),
                    random.Coin(),
                    random.Coin()};
      if (map.kind == MapKind::kZoom) map.low[0] = map.low[1] = 0.5f;
      Compare([&](ComparedEngine& side) {
        float *y = side.New(static_cast<size_t>(n)),
              *maps = side.New(6 * static_cast<size_t>(batch));
        side.ops().Uniform(seed + 3, -0.5f, 2, 17, n, y);
        side.Take(y, n);
        side.ops().RandomMaps(seed + 4, map, 5, batch, maps);
        side.Take(maps, 6 * batch);
      });
    }
  }
}

TEST_CASE("losses and their gradients are those of the CPU") {
  for (int kind = 0; kind <= static_cast<int>(LossKind::kCategoricalFocalCrossentropy); ++kind) {
    for (uint32_t seed = 0; seed < 8; ++seed) {
      INFO("kind " << kind << " seed " << seed);
      RandomInputs random(seed);
      LossShape s;
      s.kind = static_cast<LossKind>(kind);
      s.from_logits = random.Coin();
      s.rows = random.Size(30);
      s.columns = 1 + random.Size(seed == 7 ? 600 : 12);
      s.label_smoothing = random.Coin() ? 0.f : 0.1f;
      s.delta = 0.8f;
      s.gamma = random.Coin() ? 2.f : 1.5f;
      s.balanced = random.Coin();
      s.log_offset = random.Coin() ? 0.f : 1e-7f;
      const bool focal = s.kind == LossKind::kBinaryFocalCrossentropy ||
                         s.kind == LossKind::kCategoricalFocalCrossentropy;
      const bool sparse = s.kind == LossKind::kSparseCategoricalCrossentropy;
      const bool weighted = random.Coin(), zeros_and_ones = random.Coin();
      const int64_t n = s.rows * s.columns;
      const Floats outputs = random.Numbers(n, s.from_logits ? -3 : 0.05f, s.from_logits ? 3 : 1);
      // With class indices any output is clipped.
      const Floats positive = random.Numbers(n, sparse ? -0.5f : 0.05f, sparse ? 1.5f : 1);
      const Floats& y = s.from_logits && (kind <= 2 || focal) ? outputs : positive;
      Floats t = sparse ? random.Ids(s.rows, s.columns)
                        : (zeros_and_ones ? random.Ids(n, 2) : random.Numbers(n, 0.f, 1));
      const Floats weights = random.Ids(s.rows, 3);
      Compare([&](ComparedEngine& side) {
        float *d = side.New(y.size()), *py = side.Put(y), *pt = side.Put(t);
        const float* w = weighted ? side.Put(weights) : nullptr;
        side.TakeNumber([&](double* sum) { side.ops().Loss(s, py, pt, w, 0.7f, d, sum); });
        side.Take(d, n);
        side.TakeNumber([&](double* sum) { side.ops().Loss(s, py, pt, w, 0, nullptr, sum); });
      });
    }
  }
}

}  // namespace
}  // namespace paracord
