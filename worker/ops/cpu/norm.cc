// Normalisation by mean and variance, of columns (batch) or rows (layer).
#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/ops/cpu/cpu_ops_internal.h"

namespace paracord::cpu {
namespace {

void RowMoments(const NormShape& s, const float* x, float* mean, float* variance) {
  const auto n = static_cast<float>(s.columns);
  for (int64_t r = 0; r < s.rows; ++r, x += s.columns) {
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

void ColumnMoments(const NormShape& s, const float* x, float* mean, float* variance) {
  const int64_t columns = s.columns;
  const auto n = static_cast<float>(s.rows);
  const auto over_blocks = [&](float* total, auto&& term) {
    std::fill(total, total + columns, 0.f);
    std::vector<float> part(static_cast<size_t>(columns));
    for (int64_t begin = 0; begin < s.rows; begin += kBlock) {
      const int64_t end = std::min(s.rows, begin + kBlock);
      std::fill(part.begin(), part.end(), 0.f);
      for (int64_t r = begin; r < end; ++r) {
        const float* row = x + r * columns;
        for (int64_t c = 0; c < columns; ++c) part[static_cast<size_t>(c)] += term(row[c], c);
      }
      for (int64_t c = 0; c < columns; ++c) total[c] += part[static_cast<size_t>(c)];
    }
    for (int64_t c = 0; c < columns; ++c) total[c] /= n;
  };
  over_blocks(mean, [](float v, int64_t) { return v; });
  over_blocks(variance, [mean](float v, int64_t c) { return (v - mean[c]) * (v - mean[c]); });
}

void RowBackward(const NormShape& s, bool constant, const float* x, const float* mean,
                 const float* variance, const float* scale, const float* dy, float* dx,
                 float* dscale, float* doffset) {
  const int64_t columns = s.columns;
  const auto n = static_cast<float>(columns);
  if (dscale != nullptr) std::fill(dscale, dscale + columns, 0.f);
  if (doffset != nullptr) std::fill(doffset, doffset + columns, 0.f);
  for (int64_t r = 0; r < s.rows; ++r, x += columns, dy += columns) {
    const float middle = mean[r], factor = 1.f / std::sqrt(variance[r] + s.epsilon);
    if (doffset != nullptr) Add(columns, dy, doffset);
    if (dscale != nullptr) {
      for (int64_t c = 0; c < columns; ++c) dscale[c] += dy[c] * (x[c] - middle) * factor;
    }
    if (dx == nullptr) continue;
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
    dx += columns;
  }
}

void ColumnBackward(const NormShape& s, bool constant, const float* x, const float* mean,
                    const float* variance, const float* scale, const float* dy, float* dx,
                    float* dscale, float* doffset) {
  const int64_t columns = s.columns;
  const auto wide = static_cast<size_t>(columns);
  const auto n = static_cast<float>(s.rows);
  std::vector<float> factor(wide), sum(wide), dot(wide), part_sum(wide), part_dot(wide);
  for (size_t c = 0; c < wide; ++c) factor[c] = 1.f / std::sqrt(variance[c] + s.epsilon);
  for (int64_t begin = 0; begin < s.rows; begin += kBlock) {
    const int64_t end = std::min(s.rows, begin + kBlock);
    std::fill(part_sum.begin(), part_sum.end(), 0.f);
    std::fill(part_dot.begin(), part_dot.end(), 0.f);
    for (int64_t r = begin; r < end; ++r) {
      const float* row = x + r * columns;
      const float* drow = dy + r * columns;
      for (size_t c = 0; c < wide; ++c) {
        part_sum[c] += drow[c];
        part_dot[c] += drow[c] * (row[c] - mean[c]) * factor[c];
      }
    }
    Add(columns, part_sum.data(), sum.data());
    Add(columns, part_dot.data(), dot.data());
  }
  if (dscale != nullptr) std::copy(dot.begin(), dot.end(), dscale);
  if (doffset != nullptr) std::copy(sum.begin(), sum.end(), doffset);
  if (dx == nullptr) return;
  for (size_t c = 0; c < wide; ++c) {
    sum[c] = constant ? 0.f : sum[c] / n;
    dot[c] = constant ? 0.f : dot[c] * factor[c] / n;
    part_sum[c] = scale == nullptr ? factor[c] : factor[c] * scale[c];
  }
  for (int64_t r = 0; r < s.rows; ++r, x += columns, dy += columns, dx += columns) {
    for (size_t c = 0; c < wide; ++c) {
      dx[c] = part_sum[c] * (dy[c] - sum[c] - (x[c] - mean[c]) * dot[c]);
    }
  }
}

}  // namespace

void Moments(const NormShape& s, const float* x, float* mean, float* variance) {
  s.by_column ? ColumnMoments(s, x, mean, variance) : RowMoments(s, x, mean, variance);
}

void Normalize(const NormShape& s, const float* x, const float* mean, const float* variance,
               const float* scale, const float* offset, float* y) {
  const auto columns = static_cast<size_t>(s.columns);
  std::vector<float> factor(s.by_column ? columns : 0);
  for (size_t c = 0; c < factor.size(); ++c) {
    factor[c] = (scale == nullptr ? 1.f : scale[c]) / std::sqrt(variance[c] + s.epsilon);
  }
  for (int64_t r = 0; r < s.rows; ++r, x += columns, y += columns) {
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

void NormalizeBackward(const NormShape& s, bool constant, const float* x, const float* mean,
                       const float* variance, const float* scale, const float* dy, float* dx,
                       float* dscale, float* doffset) {
  const auto backward = s.by_column ? ColumnBackward : RowBackward;
  backward(s, constant, x, mean, variance, scale, dy, dx, dscale, doffset);
}

}  // namespace paracord::cpu
