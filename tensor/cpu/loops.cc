// Elementwise loops, and sums over rows.
#include <algorithm>
#include <span>
#include <vector>

#include "common/half_float.h"
#include "common/mix.h"
#include "common/vector_widths.h"
#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/cpu/ranges.h"

namespace paracord::cpu {

namespace {

PARACORD_KERNEL void AffineOf(int64_t n, float scale, float offset, const float* x, float* y) {
  PARACORD_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = scale * x[i] + offset;
}
PARACORD_WIDTHS(void, AffineWide, (int64_t n, float scale, float offset, const float* x, float* y),
                AffineOf(n, scale, offset, x, y))

PARACORD_KERNEL void AddTo(int64_t n, const float* x, float* y) {
  PARACORD_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}
PARACORD_WIDTHS(void, AddWide, (int64_t n, const float* x, float* y), AddTo(n, x, y))

}  // namespace

void Affine(int64_t n, float scale, float offset, const float* x, float* y) {
  static const auto affine = PICK_WIDTH(AffineWide);
  affine(n, scale, offset, x, y);
}

void Add(int64_t n, const float* x, float* y) {
  static const auto add = PICK_WIDTH(AddWide);
  add(n, x, y);
}

void SumRows(int64_t rows, int64_t columns, int64_t count, const float* x, float* sums) {
  // Rows in a block: sums of blocks are added in double, to lose no digits.
  constexpr int64_t kBlock = 256;
  std::fill(sums, sums + count, 0.f);
  for (int64_t r = 0; r < std::min(rows, kBlock); ++r) Add(count, x + r * columns, sums);
  if (rows <= kBlock) return;
  std::vector<double> total(sums, sums + count);
  for (int64_t begin = kBlock; begin < rows; begin += kBlock) {
    std::fill(sums, sums + count, 0.f);
    for (int64_t r = begin; r < std::min(rows, begin + kBlock); ++r) {
      Add(count, x + r * columns, sums);
    }
    for (size_t i = 0; i < total.size(); ++i) total[i] += static_cast<double>(sums[i]);
  }
  for (size_t i = 0; i < total.size(); ++i) sums[i] = static_cast<float>(total[i]);
}

void Convert(int64_t n, ConstTensor x, Tensor y) {
  const auto count = static_cast<size_t>(n);
  if (x.bfloat16 != nullptr && y.bfloat16 != nullptr) {
    std::copy_n(x.bfloat16, count, y.bfloat16);
  } else if (x.bfloat16 != nullptr) {
    Bf16ToFloats({x.bfloat16, count}, {y.float32, count});
  } else if (y.bfloat16 != nullptr) {
    FloatsToBf16({x.float32, count}, {y.bfloat16, count});
  } else {
    std::copy_n(x.float32, count, y.float32);
  }
}

void Dropout(uint64_t key, float rate, int64_t first, int64_t n, const float* x, float* y) {
  const float scale = 1.f / (1.f - rate);
  // An element is dropped if its 32-bit hash is below `dropped`.
  const auto dropped = static_cast<uint64_t>(static_cast<double>(rate) * 4294967296.0);
  const uint64_t mixed = Mix64(key);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = Mix64(mixed ^ static_cast<uint64_t>(first + i)) >> 32;
    y[i] = hash < dropped ? 0.f : x[i] * scale;
  }
}

}  // namespace paracord::cpu
