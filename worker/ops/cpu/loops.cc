// Plain loops.
#include <algorithm>
#include <cmath>

#include "common/mix.h"
#include "worker/ops/cpu/cpu_ops_internal.h"
#include "worker/ops/round_formulas.h"

namespace paracord::cpu {

void Affine(int64_t n, float scale, float offset, const float* x, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = scale * x[i] + offset;
}

void Add(int64_t n, const float* x, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void SumRows(int64_t rows, int64_t columns, int64_t count, const float* x, float* sums) {
  std::fill(sums, sums + count, 0.f);
  for (int64_t r = 0; r < rows; ++r, x += columns) Add(count, x, sums);
}

void Round(Precision precision, int64_t n, float* x) {
  switch (precision) {
    case Precision::kFloat32:
      return;
    case Precision::kBfloat16:
      for (int64_t i = 0; i < n; ++i) x[i] = formulas::WithoutBits<16>(x[i]);
      return;
    case Precision::kFloat16:
      for (int64_t i = 0; i < n; ++i) x[i] = std::isnan(x[i]) ? x[i] : formulas::ToFloat16(x[i]);
      return;
    case Precision::kFloat16Digits:
      for (int64_t i = 0; i < n; ++i) x[i] = formulas::WithoutBits<13>(x[i]);
      return;
  }
}

void Dropout(uint64_t key, float rate, int64_t first, int64_t n, const float* x, float* y) {
  const float scale = 1.f / (1.f - rate);
  // Of 2^32 values of the hash, so many drop the element.
  const auto dropped = static_cast<uint64_t>(static_cast<double>(rate) * 4294967296.0);
  const uint64_t mixed = Mix64(key);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = Mix64(mixed ^ static_cast<uint64_t>(first + i)) >> 32;
    y[i] = hash < dropped ? 0.f : x[i] * scale;
  }
}

}  // namespace paracord::cpu
