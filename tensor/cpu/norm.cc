// Normalisation of each row over its columns (layer normalisation).
#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/cpu/cpu_ops_internal.h"

namespace paracord::cpu {
namespace {

// Sums of blocks are added in double: long rows and columns lose no digits.
constexpr int64_t kBlock = 256;

// The sum of term(i) for i below n. A block is summed in lanes, for vectorisation.
template <class Term>
float SumOf(int64_t n, const Term& term) {
  constexpr int64_t kLanes = 8;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    float lanes[kLanes] = {}, part = 0;
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (; i < end; ++i) part += term(i);
    for (const float lane : lanes) part += lane;
    total += static_cast<double>(part);
  }
  return static_cast<float>(total);
}

// total[i] = the sum over rows of term(row, i), for i below count.
template <class Term>
void SumColumns(int64_t rows, int64_t count, std::vector<float>& part, float* total,
                const Term& term) {
  std::vector<double> sum(static_cast<size_t>(count));
  part.resize(sum.size());
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t end = std::min(rows, begin + kBlock);
    std::fill(part.begin(), part.end(), 0.f);
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < count; ++i) part[static_cast<size_t>(i)] += term(r, i);
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(part[i]);
  }
  for (size_t i = 0; i < sum.size(); ++i) total[i] = static_cast<float>(sum[i]);
}

}  // namespace

void RowMoments(const NormShape& s, const float* x, float* mean, float* variance, int64_t first,
                int64_t count) {
  const auto n = static_cast<float>(s.columns);
  x += first * s.columns;
  for (int64_t r = first; r < first + count; ++r, x += s.columns) {
    const float middle = s.centred ? SumOf(s.columns, [=](int64_t c) { return x[c]; }) / n : 0.f;
    const float squares =
        SumOf(s.columns, [=](int64_t c) { return (x[c] - middle) * (x[c] - middle); });
    mean[r] = middle;
    variance[r] = squares / n;
  }
}

void NormalizeRows(const NormShape& s, const float* x, const float* mean, const float* variance,
                   const float* scale, const float* offset, float* y, int64_t first,
                   int64_t count) {
  const auto columns = static_cast<size_t>(s.columns);
  x += first * s.columns, y += first * s.columns;
  for (int64_t r = first; r < first + count; ++r, x += columns, y += columns) {
    const float middle = mean[r], row_factor = 1.f / std::sqrt(variance[r] + s.epsilon);
    for (size_t c = 0; c < columns; ++c) {
      const float v = (x[c] - middle) * row_factor;
      y[c] = (scale == nullptr ? v : v * scale[c]) + (offset == nullptr ? 0.f : offset[c]);
    }
  }
}

namespace {

// Writes the gradient of a row; slope(c) is the gradient of the normalised element.
template <class Slope>
void RowBackward(const NormShape& s, bool constant, const float* x, float middle, float factor,
                 const Slope& slope, float* dx) {
  const auto n = static_cast<float>(s.columns);
  const float sum = constant || !s.centred ? 0.f : SumOf(s.columns, slope);
  const float dot =
      constant ? 0.f
               : SumOf(s.columns, [&](int64_t c) { return slope(c) * (x[c] - middle) * factor; });
  for (int64_t c = 0; c < s.columns; ++c) {
    dx[c] = factor * (slope(c) - (sum + (x[c] - middle) * factor * dot) / n);
  }
}

}  // namespace

void NormRowsBackward(const NormShape& s, bool constant, const float* x, const float* mean,
                      const float* variance, const float* scale, const float* dy, float* dx,
                      int64_t first, int64_t count) {
  const int64_t columns = s.columns;
  x += first * columns, dy += first * columns, dx += first * columns;
  for (int64_t r = first; r < first + count; ++r, x += columns, dy += columns, dx += columns) {
    const float middle = mean[r], factor = 1.f / std::sqrt(variance[r] + s.epsilon);
    if (scale == nullptr) {
      RowBackward(
          s, constant, x, middle, factor, [=](int64_t c) { return dy[c]; }, dx);
    } else {
      RowBackward(
          s, constant, x, middle, factor, [=](int64_t c) { return dy[c] * scale[c]; }, dx);
    }
  }
}

void NormRowsBackwardSums(const NormShape& s, const float* x, const float* mean,
                          const float* variance, const float* dy, float* dscale, float* doffset,
                          int64_t first, int64_t count) {
  x += first, dy += first;
  const int64_t columns = s.columns;
  std::vector<float> part;
  if (doffset != nullptr) {
    SumColumns(s.rows, count, part, doffset + first,
               [=](int64_t r, int64_t i) { return dy[r * columns + i]; });
  }
  if (dscale == nullptr) return;
  std::vector<float> factor(static_cast<size_t>(s.rows));
  for (size_t r = 0; r < factor.size(); ++r) factor[r] = 1.f / std::sqrt(variance[r] + s.epsilon);
  SumColumns(s.rows, count, part, dscale + first, [=, f = factor.data()](int64_t r, int64_t i) {
    return dy[r * columns + i] * (x[r * columns + i] - mean[r]) * f[r];
  });
}

}  // namespace paracord::cpu
