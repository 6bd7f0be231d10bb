// Normalisation by mean and variance, of columns (batch) or rows (layer).
#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/ops/cpu/cpu_ops_internal.h"

namespace paracord::cpu {
namespace {

void RowMoments(const NormShape& s, const float* x, float* mean, float* variance, int64_t first,
                int64_t count) {
  const auto n = static_cast<float>(s.columns);
  x += first * s.columns;
  for (int64_t r = first; r < first + count; ++r, x += s.columns) {
    float sum = 0, squares = 0;
    for (int64_t c = 0; c < s.columns; ++c) sum += x[c];
    const float middle = s.centred ? sum / n : 0.f;
    for (int64_t c = 0; c < s.columns; ++c) squares += (x[c] - middle) * (x[c] - middle);
    mean[r] = middle;
    variance[r] = squares / n;
  }
}

// Sums of blocks of rows, so that long columns lose no digits.
constexpr int64_t kBlock = 256;

// total[i] = the sum over rows of term(row, i), for i below count.
template <class Term>
void SumColumns(int64_t rows, int64_t count, std::vector<float>& part, float* total,
                const Term& term) {
  std::fill(total, total + count, 0.f);
  part.resize(static_cast<size_t>(count));
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t end = std::min(rows, begin + kBlock);
    std::fill(part.begin(), part.end(), 0.f);
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < count; ++i) part[static_cast<size_t>(i)] += term(r, i);
    }
    Add(count, part.data(), total);
  }
}

void ColumnMoments(const NormShape& s, const float* x, float* mean, float* variance, int64_t first,
                   int64_t count) {
  x += first, mean += first, variance += first;
  const int64_t columns = s.columns;
  const auto n = static_cast<float>(s.rows);
  std::vector<float> part;
  SumColumns(s.rows, count, part, mean, [=](int64_t r, int64_t i) { return x[r * columns + i]; });
  for (int64_t i = 0; i < count; ++i) mean[i] /= n;
  SumColumns(s.rows, count, part, variance, [=](int64_t r, int64_t i) {
    const float off = x[r * columns + i] - mean[i];
    return off * off;
  });
  for (int64_t i = 0; i < count; ++i) variance[i] /= n;
}

}  // namespace

void Moments(const NormShape& s, const float* x, float* mean, float* variance, int64_t first,
             int64_t count) {
  const auto moments = s.by_column ? ColumnMoments : RowMoments;
  moments(s, x, mean, variance, first, count);
}

void Normalize(const NormShape& s, const float* x, const float* mean, const float* variance,
               const float* scale, const float* offset, float* y, int64_t first, int64_t count) {
  const auto columns = static_cast<size_t>(s.columns);
  std::vector<float> factor(s.by_column ? columns : 0);
  for (size_t c = 0; c < factor.size(); ++c) {
    factor[c] = (scale == nullptr ? 1.f : scale[c]) / std::sqrt(variance[c] + s.epsilon);
  }
  x += first * s.columns, y += first * s.columns;
  for (int64_t r = first; r < first + count; ++r, x += columns, y += columns) {
    if (s.by_column) {
      for (size_t c = 0; c < columns; ++c) {
        y[c] = (x[c] - mean[c]) * factor[c] + (offset == nullptr ? 0.f : offset[c]);
      }
      continue;
    }
    const float middle = mean[r], row_factor = 1.f / std::sqrt(variance[r] + s.epsilon);
    for (size_t c = 0; c < columns; ++c) {
      const float v = (x[c] - middle) * row_factor;
      y[c] = (scale == nullptr ? v : v * scale[c]) + (offset == nullptr ? 0.f : offset[c]);
    }
  }
}

void NormRowsBackward(const NormShape& s, bool constant, const float* x, const float* mean,
                      const float* variance, const float* scale, const float* dy, float* dx,
                      int64_t first, int64_t count) {
  const int64_t columns = s.columns;
  const auto n = static_cast<float>(columns);
  x += first * columns, dy += first * columns, dx += first * columns;
  for (int64_t r = first; r < first + count; ++r, x += columns, dy += columns, dx += columns) {
    const float middle = mean[r], factor = 1.f / std::sqrt(variance[r] + s.epsilon);
    float sum = 0, dot = 0;
    for (int64_t c = 0; c < columns && !constant; ++c) {
      const float d = scale == nullptr ? dy[c] : dy[c] * scale[c];
      sum += d;
      dot += d * (x[c] - middle) * factor;
    }
    if (!s.centred) sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const float d = scale == nullptr ? dy[c] : dy[c] * scale[c];
      dx[c] = factor * (d - (sum + (x[c] - middle) * factor * dot) / n);
    }
  }
}

void NormRowsBackwardSums(const NormShape& s, const float* x, const float* mean,
                          const float* variance, const float* dy, float* dscale, float* doffset,
                          int64_t first, int64_t count) {
  if (dscale != nullptr) std::fill_n(dscale + first, count, 0.f);
  if (doffset != nullptr) std::fill_n(doffset + first, count, 0.f);
  x += first, dy += first;
  for (int64_t r = 0; r < s.rows; ++r, x += s.columns, dy += s.columns) {
    const float middle = mean[r], factor = 1.f / std::sqrt(variance[r] + s.epsilon);
    if (doffset != nullptr) Add(count, dy, doffset + first);
    for (int64_t i = 0; i < count && dscale != nullptr; ++i) {
      dscale[first + i] += dy[i] * (x[i] - middle) * factor;
    }
  }
}

void NormColumnsBackward(const NormShape& s, bool constant, const float* x, const float* mean,
                         const float* variance, const float* scale, const float* dy, float* dx,
                         float* dscale, float* doffset, int64_t first, int64_t count) {
  x += first, dy += first, mean += first, variance += first;
  const int64_t columns = s.columns;
  const auto wide = static_cast<size_t>(count);
  const auto n = static_cast<float>(s.rows);
  std::vector<float> factor(wide), sum(wide), dot(wide), part(wide);
  for (size_t i = 0; i < wide; ++i) factor[i] = 1.f / std::sqrt(variance[i] + s.epsilon);
  SumColumns(s.rows, count, part, sum.data(),
             [=](int64_t r, int64_t i) { return dy[r * columns + i]; });
  SumColumns(s.rows, count, part, dot.data(), [=, f = factor.data()](int64_t r, int64_t i) {
    return dy[r * columns + i] * (x[r * columns + i] - mean[i]) * f[i];
  });
  if (dscale != nullptr) std::copy(dot.begin(), dot.end(), dscale + first);
  if (doffset != nullptr) std::copy(sum.begin(), sum.end(), doffset + first);
  if (dx == nullptr) return;
  for (size_t i = 0; i < wide; ++i) {
    sum[i] = constant ? 0.f : sum[i] / n;
    dot[i] = constant ? 0.f : dot[i] * factor[i] / n;
    if (scale != nullptr) factor[i] *= scale[static_cast<size_t>(first) + i];
  }
  dx += first;
  for (int64_t r = 0; r < s.rows; ++r, x += columns, dy += columns, dx += columns) {
    for (size_t i = 0; i < wide; ++i) {
      dx[i] = factor[i] * (dy[i] - sum[i] - (x[i] - mean[i]) * dot[i]);
    }
  }
}

}  // namespace paracord::cpu
