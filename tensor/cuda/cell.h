// Kernel bodies of recurrent time steps (CellStep in ops.h). With elementwise activations, a thread
// computes all gates of one unit of an example; with activations of whole rows (softmax), a thread
// computes all units of an example. The formulas are those of tensor/cpu/cell.cc.
#pragma once

#include "tensor/cell_widths.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/softmax.h"

namespace paracord::cuda {

PARACORD_HD inline bool OfRows(const Activation& p) {
  return p.kind == ActivationKind::kSoftmax || p.kind == ActivationKind::kLogSoftmax ||
         p.kind == ActivationKind::kSparsemax;
}

// The units that a thread computes: one, or all.
struct Units {
  int64_t begin, end;
};

PARACORD_HD inline void SoftmaxOfRow(bool log, Units u, In x, Out y) {
  ExpSum<float> all;
  for (int64_t k = u.begin; k < u.end; ++k) all.Add(x[k]);
  for (int64_t k = u.begin; k < u.end; ++k) {
    const float apart = x[k] - all.top;
    y[k] = log ? apart - std::log(all.sum) : std::exp(apart) / all.sum;
  }
}

PARACORD_HD PARACORD_CALLED inline void ActivateUnits(const Activation& p, Units u, In x, Out y) {
  if (p.kind == ActivationKind::kSparsemax) return SparsemaxRow(u.end, x, y);
  if (OfRows(p)) return SoftmaxOfRow(p.kind == ActivationKind::kLogSoftmax, u, x, y);
  for (int64_t k = u.begin; k < u.end; ++k) y[k] = ValueOf(p, x[k]);
}

PARACORD_HD PARACORD_CALLED inline void ActivateUnitsBackward(const Activation& p, Units u, In x,
                                                              In y, In dy, Out dx) {
  if (p.kind == ActivationKind::kSparsemax) return SparsemaxBackwardRow(u.end, x, y, dy, dx);
  if (!OfRows(p)) {
    for (int64_t k = u.begin; k < u.end; ++k) dx[k] = GradientOf(p, x[k], y[k], dy[k]);
    return;
  }
  const bool log = p.kind == ActivationKind::kLogSoftmax;
  float sum = 0;
  for (int64_t k = u.begin; k < u.end; ++k) sum += log ? static_cast<float>(dy[k]) : dy[k] * y[k];
  for (int64_t k = u.begin; k < u.end; ++k) {
    const float own = y[k], d = dy[k];
    dx[k] = log ? d - std::exp(own) * sum : own * (d - sum);
  }
}

// Pointers to an example's row in each of these tensors.
struct CellRow {
  In h0, c0, r;
  Out z, kept, h, c;
};

struct CellTensors {
  In mask, h0, c0;
  Out z, kept, h, c;
  PARACORD_HD CellRow Row(const CellShape& s, In r, int64_t b) const {
    const CellWidths w = WidthsOf(s.kind);
    const int64_t u = s.units;
    return {h0 + b * u,
            c0 == nullptr ? c0 : c0 + b * u,
            r == nullptr ? r : r + b * w.product * u,
            z + b * w.gates * u,
            kept == nullptr ? kept : kept + b * w.kept * u,
            h + b * u,
            c == nullptr ? c : c + b * u};
  }
  PARACORD_HD bool Skips(int64_t b) const { return !(mask == nullptr) && mask[b] == 0; }
};

PARACORD_HD inline Units UnitsOf(const CellShape& s, bool rows, int64_t i) {
  return rows ? Units{0, s.units} : Units{i % s.units, i % s.units + 1};
}

struct CellForwardBody {
  CellShape s;
  bool rows;  // a thread computes all units of an example
  CellTensors t;
  In r;

  PARACORD_HD void operator()(int64_t i) const {
    const int64_t b = rows ? i : i / s.units;
    const Units u = UnitsOf(s, rows, i);
    const CellRow at = t.Row(s, r, b);
    if (t.Skips(b)) {
      for (int64_t k = u.begin; k < u.end; ++k) {
        at.h[k] = at.h0[k];
        if (!(at.c == nullptr)) at.c[k] = at.c0[k];
      }
      return;
    }
    switch (s.kind) {
      case CellKind::kSimple:
        AddGates(at, u, 0, 1);
        return ActivateUnits(s.activation, u, at.z, at.h);
      case CellKind::kLstm:
        return Lstm(at, u);
      case CellKind::kGru:
        return Gru(at, u);
      case CellKind::kGruGates:
        AddGates(at, u, 0, 2);
        Gates(at, u);
        for (int64_t k = u.begin; k < u.end; ++k) at.h[k] = at.kept[s.units + k] * at.h0[k];
        return;
      case CellKind::kGruCandidate:
        for (int64_t k = u.begin; k < u.end; ++k) at.z[2 * s.units + k] += at.r[k];
        return Candidate(at, u);
    }
  }

 private:
  PARACORD_HD void AddGates(const CellRow& at, Units u, int64_t from, int64_t to) const {
    for (int64_t g = from * s.units; g < to * s.units; g += s.units) {
      for (int64_t k = u.begin; k < u.end; ++k) at.z[g + k] += at.r[g + k];
    }
  }
  // Applies the recurrent activation to the update and the reset gate.
  PARACORD_HD void Gates(const CellRow& at, Units u) const {
    ActivateUnits(s.recurrent_activation, u, at.z, at.kept);
    ActivateUnits(s.recurrent_activation, u, at.z + s.units, at.kept + s.units);
  }
  PARACORD_HD void Candidate(const CellRow& at, Units u) const {
    const Out candidate = at.kept + 2 * s.units;
    ActivateUnits(s.activation, u, at.z + 2 * s.units, candidate);
    for (int64_t k = u.begin; k < u.end; ++k) {
      const float update = at.kept[k];
      at.h[k] = update * at.h0[k] + (1.f - update) * candidate[k];
    }
  }
  PARACORD_HD void Lstm(const CellRow& at, Units u) const {
    const int64_t n = s.units;
    AddGates(at, u, 0, 4);
    const Out i = at.kept, f = i + n, g = f + n, o = g + n, tanh_c = o + n;
    ActivateUnits(s.recurrent_activation, u, at.z, i);
    ActivateUnits(s.recurrent_activation, u, at.z + n, f);
    ActivateUnits(s.activation, u, at.z + 2 * n, g);
    ActivateUnits(s.recurrent_activation, u, at.z + 3 * n, o);
    for (int64_t k = u.begin; k < u.end; ++k) at.c[k] = f[k] * at.c0[k] + i[k] * g[k];
    ActivateUnits(s.activation, u, at.c, tanh_c);
    for (int64_t k = u.begin; k < u.end; ++k) at.h[k] = o[k] * tanh_c[k];
  }
  PARACORD_HD void Gru(const CellRow& at, Units u) const {
    const int64_t n = s.units;
    AddGates(at, u, 0, 2);
    Gates(at, u);
    for (int64_t k = u.begin; k < u.end; ++k) {
      const float product = at.r[2 * n + k];
      at.kept[3 * n + k] = product;
      at.z[2 * n + k] += at.kept[n + k] * product;
    }
    Candidate(at, u);
  }
};

struct CellBackwardBody {
  CellShape s;
  bool rows;
  CellTensors t;
  Out dh, dc, dz, dr;

  PARACORD_HD void operator()(int64_t i) const {
    const int64_t b = rows ? i : i / s.units, n = s.units;
    const CellWidths w = WidthsOf(s.kind);
    const Units u = UnitsOf(s, rows, i);
    const CellRow at = t.Row(s, nullptr, b);
    const Out row_z = dz + b * w.gates * n, row_r = dr + b * w.product * n, row_h = dh + b * n;
    const Out row_c = dc == nullptr ? dc : dc + b * n;
    const bool own_product = s.kind != CellKind::kSimple && s.kind != CellKind::kLstm;
    if (t.Skips(b)) {
      Clear(row_z, u, w.gates);
      if (own_product) Clear(row_r, u, w.product);
      return;
    }
    switch (s.kind) {
      case CellKind::kSimple:
        ActivateUnitsBackward(s.activation, u, at.z, at.h, row_h, row_z);
        return Clear(row_h, u, 1);
      case CellKind::kLstm:
        return Lstm(at, u, row_h, row_c, row_z);
      case CellKind::kGru:
        return Gru(at, u, row_h, row_z, row_r);
      case CellKind::kGruGates:
        for (int64_t k = u.begin; k < u.end; ++k) {
          const float d = row_c[k];
          row_z[n + k] = d * at.h0[k];
          row_h[k] += d * at.kept[n + k];
        }
        return Gates(at, u, row_z, row_r);
      case CellKind::kGruCandidate:
        Mix(at, u, row_h, row_z);
        for (int64_t k = u.begin; k < u.end; ++k) row_r[k] = row_z[2 * n + k];
        return;
    }
  }

 private:
  PARACORD_HD void Clear(Out d, Units u, int64_t widths) const {
    for (int64_t g = 0; g < widths * s.units; g += s.units) {
      for (int64_t k = u.begin; k < u.end; ++k) d[g + k] = 0.f;
    }
  }
  PARACORD_HD void Lstm(const CellRow& at, Units u, Out d_h, Out d_c, Out d) const {
    const int64_t n = s.units;
    const Out i = at.kept, f = i + n, g = f + n, o = g + n, tanh_c = o + n;
    const Out di = d, df = di + n, dg = df + n, d_o = dg + n;
    for (int64_t k = u.begin; k < u.end; ++k) {
      d_o[k] = d_h[k] * tanh_c[k];
      d_h[k] *= o[k];
    }
    ActivateUnitsBackward(s.activation, u, at.c, tanh_c, d_h, d_h);
    for (int64_t k = u.begin; k < u.end; ++k) {
      const float all = d_c[k] + d_h[k];
      di[k] = all * g[k];
      df[k] = all * at.c0[k];
      dg[k] = all * i[k];
      d_c[k] = all * f[k];
      d_h[k] = 0.f;
    }
    ActivateUnitsBackward(s.recurrent_activation, u, at.z, i, di, di);
    ActivateUnitsBackward(s.recurrent_activation, u, at.z + n, f, df, df);
    ActivateUnitsBackward(s.activation, u, at.z + 2 * n, g, dg, dg);
    ActivateUnitsBackward(s.recurrent_activation, u, at.z + 3 * n, o, d_o, d_o);
  }
  // Computes the gradients of h = u h0 + (1 - u) candidate: with respect to h0 (in d_h), to the
  // update gate u (at the begin of d) and to the argument of the candidate's activation (at d +
  // 2n).
  PARACORD_HD void Mix(const CellRow& at, Units u, Out d_h, Out d) const {
    const int64_t n = s.units;
    const Out candidate = at.kept + 2 * n, d_candidate = d + 2 * n;
    for (int64_t k = u.begin; k < u.end; ++k) {
      const float update = at.kept[k], own = d_h[k];
      d[k] = own * (at.h0[k] - candidate[k]);
      d_candidate[k] = own * (1.f - update);
      d_h[k] = own * update;
    }
    ActivateUnitsBackward(s.activation, u, at.z + 2 * n, candidate, d_candidate, d_candidate);
  }
  // Computes the gradients of the gates' arguments, which are also the gradients of r.
  PARACORD_HD void Gates(const CellRow& at, Units u, Out d, Out d_r) const {
    for (int64_t g = 0; g < 2 * s.units; g += s.units) {
      ActivateUnitsBackward(s.recurrent_activation, u, at.z + g, at.kept + g, d + g, d + g);
      for (int64_t k = u.begin; k < u.end; ++k) d_r[g + k] = d[g + k];
    }
  }
  PARACORD_HD void Gru(const CellRow& at, Units u, Out d_h, Out d, Out d_r) const {
    const int64_t n = s.units;
    Mix(at, u, d_h, d);
    for (int64_t k = u.begin; k < u.end; ++k) {
      const float through = d[2 * n + k];
      d[n + k] = through * at.kept[3 * n + k];
      d_r[2 * n + k] = through * at.kept[n + k];
    }
    Gates(at, u, d, d_r);
  }
};

}  // namespace paracord::cuda
