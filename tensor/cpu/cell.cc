// Time steps of recurrent layers, row by row. The formulas are those of
// keras/src/layers/rnn/{simple_rnn,lstm,gru}.py.
#include <algorithm>

#include "common/vector_widths.h"
#include "tensor/cell_widths.h"
#include "tensor/cpu/cpu_ops_internal.h"

namespace paracord::cpu {
namespace {

// A row (an example) of a step: pointers to the example's part of every tensor.
struct Row {
  Row(const CellShape& s, const CellStep& step, int64_t gates, int64_t kept_each, int64_t row)
      : skipped(step.mask != nullptr && step.mask[row] == 0),
        h0(step.h0 + row * s.units),
        c0(step.c0 == nullptr ? nullptr : step.c0 + row * s.units),
        z(step.z + row * gates * s.units),
        kept(step.kept == nullptr ? nullptr : step.kept + row * kept_each * s.units),
        h(step.h + row * s.units),
        c(step.c == nullptr ? nullptr : step.c + row * s.units) {}
  const bool skipped;
  const float *h0, *c0;
  float *z, *kept, *h, *c;
};

PARACORD_KERNEL void Product(int64_t n, const float* a, const float* b, float* y) {
  PARACORD_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) y[k] = a[k] * b[k];
}
PARACORD_WIDTHS(void, ProductWide, (int64_t n, const float* a, const float* b, float* y),
                Product(n, a, b, y))
void Multiply(int64_t n, const float* a, const float* b, float* y) {
  static const auto product = PICK_WIDTH(ProductWide);
  product(n, a, b, y);
}

// y += a b
PARACORD_KERNEL void AddProduct(int64_t n, const float* a, const float* b, float* y) {
  PARACORD_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) y[k] += a[k] * b[k];
}
PARACORD_WIDTHS(void, AddProductWide, (int64_t n, const float* a, const float* b, float* y),
                AddProduct(n, a, b, y))
void MultiplyAdd(int64_t n, const float* a, const float* b, float* y) {
  static const auto add_product = PICK_WIDTH(AddProductWide);
  add_product(n, a, b, y);
}

// y = a b + c d
PARACORD_KERNEL void SumOfProducts(int64_t n, const float* a, const float* b, const float* c,
                                   const float* d, float* y) {
  PARACORD_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) y[k] = a[k] * b[k] + c[k] * d[k];
}
PARACORD_WIDTHS(void, SumOfProductsWide,
                (int64_t n, const float* a, const float* b, const float* c, const float* d,
                 float* y),
                SumOfProducts(n, a, b, c, d, y))

// h = z h0 + (1 - z) candidate
PARACORD_KERNEL void Mix(int64_t n, const float* z, const float* h0, const float* candidate,
                         float* h) {
  PARACORD_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) h[k] = z[k] * h0[k] + (1.f - z[k]) * candidate[k];
}
PARACORD_WIDTHS(void, MixWide,
                (int64_t n, const float* z, const float* h0, const float* candidate, float* h),
                Mix(n, z, h0, candidate, h))

// The gradients of the three operands of Mix; dh becomes the gradient of h0.
PARACORD_KERNEL void MixSlopes(int64_t n, const float* z, const float* h0, const float* candidate,
                               float* dh, float* d_update, float* d_candidate) {
  PARACORD_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    d_update[k] = dh[k] * (h0[k] - candidate[k]);
    d_candidate[k] = dh[k] * (1.f - z[k]);
    dh[k] *= z[k];
  }
}
PARACORD_WIDTHS(void, MixSlopesWide,
                (int64_t n, const float* z, const float* h0, const float* candidate, float* dh,
                 float* d_update, float* d_candidate),
                MixSlopes(n, z, h0, candidate, dh, d_update, d_candidate))

// Computes the gradients of the gates i, f and g, adjacent like the factors of c0, and of c0. The
// state c gets gradient from h, by `dh`, and from later steps, by `dc`.
PARACORD_KERNEL void LstmSlopes(int64_t n, const float* gates, const float* c0, float* dh,
                                float* dc, float* d_gates) {
  PARACORD_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const float all = dc[k] + dh[k];
    d_gates[k] = all * gates[2 * n + k];
    d_gates[n + k] = all * c0[k];
    d_gates[2 * n + k] = all * gates[k];
    dc[k] = all * gates[n + k];
    dh[k] = 0;
  }
}
PARACORD_WIDTHS(void, LstmSlopesWide,
                (int64_t n, const float* gates, const float* c0, float* dh, float* dc,
                 float* d_gates),
                LstmSlopes(n, gates, c0, dh, dc, d_gates))

void SimpleForward(const CellShape& s, const Row& at, const float* r) {
  Add(s.units, r, at.z);
  Activate(s.activation, 1, s.units, at.z, at.h);
}

void LstmForward(const CellShape& s, const Row& at, const float* r) {
  const int64_t u = s.units;
  Add(4 * u, r, at.z);
  float *i = at.kept, *f = i + u, *g = f + u, *o = g + u, *tanh_c = o + u;
  Activate(s.recurrent_activation, 2, u, at.z, i);
  Activate(s.activation, 1, u, at.z + 2 * u, g);
  Activate(s.recurrent_activation, 1, u, at.z + 3 * u, o);
  static const auto sum_of_products = PICK_WIDTH(SumOfProductsWide);
  sum_of_products(u, f, at.c0, i, g, at.c);
  Activate(s.activation, 1, u, at.c, tanh_c);
  Multiply(u, o, tanh_c, at.h);
}

void MixGru(int64_t u, const Row& at) {
  static const auto mix = PICK_WIDTH(MixWide);
  mix(u, at.kept, at.h0, at.kept + 2 * u, at.h);
}

void GruForward(const CellShape& s, const Row& at, const float* r) {
  const int64_t u = s.units;
  float *reset = at.kept + u, *candidate = reset + u, *product = candidate + u;
  Add(2 * u, r, at.z);
  Activate(s.recurrent_activation, 2, u, at.z, at.kept);
  std::copy(r + 2 * u, r + 3 * u, product);
  float* z = at.z + 2 * u;
  MultiplyAdd(u, reset, product, z);
  Activate(s.activation, 1, u, z, candidate);
  MixGru(u, at);
}

void GruGatesForward(const CellShape& s, const Row& at, const float* r) {
  const int64_t u = s.units;
  Add(2 * u, r, at.z);
  Activate(s.recurrent_activation, 2, u, at.z, at.kept);
  Multiply(u, at.kept + u, at.h0, at.h);
}

void GruCandidateForward(const CellShape& s, const Row& at, const float* r) {
  const int64_t u = s.units;
  Add(u, r, at.z + 2 * u);
  Activate(s.activation, 1, u, at.z + 2 * u, at.kept + 2 * u);
  MixGru(u, at);
}

void SimpleBackward(const CellShape& s, const Row& at, float* dh, float* dz) {
  ActivateBackward(s.activation, 1, s.units, at.z, at.h, dh, dz);
  std::fill(dh, dh + s.units, 0.f);
}

void LstmBackward(const CellShape& s, const Row& at, float* dh, float* dc, float* dz) {
  const int64_t u = s.units;
  const float *i = at.kept, *g = i + 2 * u, *o = g + u, *tanh_c = o + u;
  float *dg = dz + 2 * u, *d_o = dg + u;
  Multiply(u, dh, tanh_c, d_o);
  Multiply(u, dh, o, dh);
  ActivateBackward(s.activation, 1, u, at.c, tanh_c, dh, dh);
  static const auto slopes = PICK_WIDTH(LstmSlopesWide);
  slopes(u, i, at.c0, dh, dc, dz);
  ActivateBackward(s.recurrent_activation, 2, u, at.z, i, dz, dz);
  ActivateBackward(s.activation, 1, u, at.z + 2 * u, g, dg, dg);
  ActivateBackward(s.recurrent_activation, 1, u, at.z + 3 * u, o, d_o, d_o);
}

// Goes back through h = z h0 + (1 - z) candidate, to the update gate's value and to the argument of
// the candidate's activation.
void MixGruBackward(const CellShape& s, const Row& at, float* dh, float* d_update,
                    float* d_candidate) {
  const int64_t u = s.units;
  const float* candidate = at.kept + 2 * u;
  static const auto slopes = PICK_WIDTH(MixSlopesWide);
  slopes(u, at.kept, at.h0, candidate, dh, d_update, d_candidate);
  ActivateBackward(s.activation, 1, u, at.z + 2 * u, candidate, d_candidate, d_candidate);
}

void GruBackward(const CellShape& s, const Row& at, float* dh, float* dz, float* dr) {
  const int64_t u = s.units;
  const float *reset = at.kept + u, *product = reset + 2 * u;
  float *d_reset = dz + u, *d_candidate = d_reset + u;
  MixGruBackward(s, at, dh, dz, d_candidate);
  Multiply(u, d_candidate, product, d_reset);
  Multiply(u, d_candidate, reset, dr + 2 * u);
  ActivateBackward(s.recurrent_activation, 2, u, at.z, at.kept, dz, dz);
  std::copy(dz, dz + 2 * u, dr);
}

void GruCandidateBackward(const CellShape& s, const Row& at, float* dh, float* dz, float* dr) {
  const int64_t u = s.units;
  MixGruBackward(s, at, dh, dz, dz + 2 * u);
  std::copy(dz + 2 * u, dz + 3 * u, dr);
}

// On entry dz already has the gradient of the update gate's value; `d` is the gradient of r h0.
void GruGatesBackward(const CellShape& s, const Row& at, float* dh, const float* d, float* dz,
                      float* dr) {
  const int64_t u = s.units;
  Multiply(u, d, at.h0, dz + u);
  MultiplyAdd(u, d, at.kept + u, dh);
  ActivateBackward(s.recurrent_activation, 2, u, at.z, at.kept, dz, dz);
  std::copy(dz, dz + 2 * u, dr);
}

}  // namespace

void CellForward(const CellShape& s, const CellStep& step, const float* all_r, int64_t first,
                 int64_t count) {
  const CellWidths w = WidthsOf(s.kind);
  for (int64_t b = first; b < first + count; ++b) {
    const float* r = all_r + b * w.product * s.units;
    const Row at(s, step, w.gates, w.kept, b);
    if (at.skipped) {
      std::copy(at.h0, at.h0 + s.units, at.h);
      if (at.c != nullptr) std::copy(at.c0, at.c0 + s.units, at.c);
      continue;
    }
    switch (s.kind) {
      case CellKind::kSimple:
        SimpleForward(s, at, r);
        break;
      case CellKind::kLstm:
        LstmForward(s, at, r);
        break;
      case CellKind::kGru:
        GruForward(s, at, r);
        break;
      case CellKind::kGruGates:
        GruGatesForward(s, at, r);
        break;
      case CellKind::kGruCandidate:
        GruCandidateForward(s, at, r);
        break;
    }
  }
}

void CellBackward(const CellShape& s, const CellStep& step, float* dh, float* dc, float* dz,
                  float* dr, int64_t first, int64_t count) {
  const CellWidths w = WidthsOf(s.kind);
  const bool own_product = s.kind != CellKind::kSimple && s.kind != CellKind::kLstm;
  for (int64_t b = first; b < first + count; ++b) {
    const Row at(s, step, w.gates, w.kept, b);
    float *row_h = dh + b * s.units, *row_c = dc == nullptr ? nullptr : dc + b * s.units;
    float *row_z = dz + b * w.gates * s.units, *row_r = dr + b * w.product * s.units;
    if (at.skipped) {
      std::fill(row_z, row_z + w.gates * s.units, 0.f);
      if (own_product) std::fill(row_r, row_r + w.product * s.units, 0.f);
      continue;
    }
    switch (s.kind) {
      case CellKind::kSimple:
        SimpleBackward(s, at, row_h, row_z);
        break;
      case CellKind::kLstm:
        LstmBackward(s, at, row_h, row_c, row_z);
        break;
      case CellKind::kGru:
        GruBackward(s, at, row_h, row_z, row_r);
        break;
      case CellKind::kGruGates:
        GruGatesBackward(s, at, row_h, row_c, row_z, row_r);
        break;
      case CellKind::kGruCandidate:
        GruCandidateBackward(s, at, row_h, row_z, row_r);
        break;
    }
  }
}

}  // namespace paracord::cpu
