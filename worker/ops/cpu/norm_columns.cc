// Normalisation of columns over their rows (batch), of some of the columns at a time. Sums are of
// blocks of rows, so that long columns lose no digits.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/vector_widths.h"
#include "worker/ops/cpu/cpu_ops_internal.h"

namespace paracord::cpu {
namespace {

constexpr int64_t kBlock = 256;

// Rows of x, and what is the same along each column.
struct Columns {
  int64_t step = 0, count = 0;  // from row to row, and of a row
  const float* x = nullptr;
  const float *mean = nullptr, *factor = nullptr;
  const float *whole = nullptr, *offset = nullptr;  // the factor with the scale
  float relu = 0;
};

// Before the ReLU, there and back the same bits.
PARACORD_KERNEL float ValueOf(const Columns& c, const float* x, int64_t i) {
  return (x[i] - c.mean[i]) * c.whole[i] + c.offset[i];
}
template <bool kRelu>
PARACORD_KERNEL float SlopeOf(const Columns& c, const float* x, const float* dy, int64_t i) {
  if constexpr (!kRelu) return dy[i];
  const float v = ValueOf(c, x, i);
  return static_cast<int>(v > 0) & static_cast<int>(v < c.relu) ? dy[i] : 0.f;
}

PARACORD_KERNEL void AddRows(const Columns c, int64_t rows, float* sum) {
  const float* x = c.x;
  for (int64_t r = 0; r < rows; ++r, x += c.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) sum[i] += x[i];
  }
}
PARACORD_WIDTHS(void, AddRowsWide, (const Columns& c, int64_t rows, float* sum),
                AddRows(c, rows, sum))

PARACORD_KERNEL void AddSquares(const Columns c, int64_t rows, float* sum) {
  const float* x = c.x;
  for (int64_t r = 0; r < rows; ++r, x += c.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      const float off = x[i] - c.mean[i];
      sum[i] += off * off;
    }
  }
}
PARACORD_WIDTHS(void, AddSquaresWide, (const Columns& c, int64_t rows, float* sum),
                AddSquares(c, rows, sum))

template <bool kRelu>
PARACORD_KERNEL void AddSlopes(const Columns c, int64_t rows, const float* dy, float* sum,
                               float* dot) {
  const float* x = c.x;
  for (int64_t r = 0; r < rows; ++r, x += c.step, dy += c.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      const float d = SlopeOf<kRelu>(c, x, dy, i);
      sum[i] += d;
      dot[i] += d * (x[i] - c.mean[i]) * c.factor[i];
    }
  }
}
PARACORD_WIDTHS(void, AddSlopesWide,
                (const Columns& c, int64_t rows, const float* dy, float* sum, float* dot),
                c.relu == 0 ? AddSlopes<false>(c, rows, dy, sum, dot)
                            : AddSlopes<true>(c, rows, dy, sum, dot))

PARACORD_KERNEL void Values(const Columns c, int64_t rows, float* y) {
  const float* x = c.x;
  for (int64_t r = 0; r < rows; ++r, x += c.step, y += c.step) {
    if (c.relu == 0) {
      PARACORD_INDEPENDENT
      for (int64_t i = 0; i < c.count; ++i) y[i] = ValueOf(c, x, i);
    } else {
      PARACORD_INDEPENDENT
      for (int64_t i = 0; i < c.count; ++i) {
        const float v = ValueOf(c, x, i), low = v <= 0 ? 0.f : v;  // keeps a NaN
        y[i] = low > c.relu ? c.relu : low;
      }
    }
  }
}
PARACORD_WIDTHS(void, ValuesWide, (const Columns& c, int64_t rows, float* y), Values(c, rows, y))

template <bool kRelu>
PARACORD_KERNEL void Slopes(const Columns c, int64_t rows, const float* sum, const float* dot,
                            const float* dy, float* dx) {
  const float* x = c.x;
  for (int64_t r = 0; r < rows; ++r, x += c.step, dy += c.step, dx += c.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      dx[i] = c.whole[i] * (SlopeOf<kRelu>(c, x, dy, i) - sum[i] - (x[i] - c.mean[i]) * dot[i]);
    }
  }
}
PARACORD_WIDTHS(void, SlopesWide,
                (const Columns& c, int64_t rows, const float* sum, const float* dot,
                 const float* dy, float* dx),
                c.relu == 0 ? Slopes<false>(c, rows, sum, dot, dy, dx)
                            : Slopes<true>(c, rows, sum, dot, dy, dx))

// Numbers of columns from `first` on, as Columns points to.
struct Factors {
  Factors(const NormShape& s, const float* variance, const float* scale, const float* given,
          int64_t first, int64_t count)
      : factor(static_cast<size_t>(count)), whole(factor.size()), offset(factor.size()) {
    for (size_t i = 0; i < factor.size(); ++i) {
      const auto c = static_cast<size_t>(first) + i;
      const float root = std::sqrt(variance[c] + s.epsilon);
      factor[i] = 1.f / root;
      whole[i] = (scale == nullptr ? 1.f : scale[c]) / root;
      offset[i] = given == nullptr ? 0.f : given[c];
    }
  }
  std::vector<float> factor, whole, offset;
};

// What add(row, how many, part) adds up of blocks: part has `n` numbers, which were 0.
template <class Add>
std::vector<double> InBlocks(int64_t rows, int64_t n, const Add& add) {
  std::vector<double> sum(static_cast<size_t>(n));
  std::vector<float> part(sum.size());
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    std::fill(part.begin(), part.end(), 0.f);
    add(begin, std::min(kBlock, rows - begin), part.data());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(part[i]);
  }
  return sum;
}

}  // namespace

void ColumnMoments(const NormShape& s, const float* x, float* mean, float* variance, int64_t first,
                   int64_t count) {
  static const auto add_rows = PICK_WIDTH(AddRowsWide);
  static const auto add_squares = PICK_WIDTH(AddSquaresWide);
  x += first, mean += first, variance += first;
  Columns columns{.step = s.columns, .count = count, .mean = mean};
  const auto of = [&](auto* add, float* moment) {
    const std::vector<double> sum =
        InBlocks(s.rows, count, [&](int64_t begin, int64_t rows, float* part) {
          columns.x = x + begin * s.columns;
          add(columns, rows, part);
        });
    for (size_t i = 0; i < sum.size(); ++i) {
      moment[i] = static_cast<float>(sum[i]) / static_cast<float>(s.rows);
    }
  };
  of(add_rows, mean);
  of(add_squares, variance);
}

void NormalizeColumns(const NormShape& s, const float* x, const float* mean, const float* variance,
                      const float* scale, const float* offset, float* y, int64_t first,
                      int64_t count) {
  static const auto values = PICK_WIDTH(ValuesWide);
  const Factors of(s, variance, scale, offset, 0, s.columns);
  const int64_t at = first * s.columns;
  values({s.columns, s.columns, x + at, mean, nullptr, of.whole.data(), of.offset.data(), s.relu},
         count, y + at);
}

void NormColumnsBackward(const NormShape& s, bool constant, const float* x, const float* mean,
                         const float* variance, const float* scale, const float* offset,
                         const float* dy, float* dx, float* dscale, float* doffset, int64_t first,
                         int64_t count) {
  static const auto add_slopes = PICK_WIDTH(AddSlopesWide);
  static const auto slopes = PICK_WIDTH(SlopesWide);
  const Factors of(s, variance, scale, offset, first, count);
  x += first, dy += first;
  Columns columns{s.columns,        count, x, mean + first, of.factor.data(), of.whole.data(),
                  of.offset.data(), s.relu};
  const std::vector<double> sums =
      InBlocks(s.rows, 2 * count, [&](int64_t begin, int64_t rows, float* part) {
        columns.x = x + begin * s.columns;
        add_slopes(columns, rows, dy + begin * s.columns, part, part + count);
      });
  const auto n = static_cast<float>(s.rows);
  std::vector<float> sum(static_cast<size_t>(count)), dot(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = static_cast<float>(sums[i]);
    dot[i] = static_cast<float>(sums[sum.size() + i]);
  }
  if (dscale != nullptr) std::copy(dot.begin(), dot.end(), dscale + first);
  if (doffset != nullptr) std::copy(sum.begin(), sum.end(), doffset + first);
  if (dx == nullptr) return;
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = constant ? 0.f : sum[i] / n;
    dot[i] = constant ? 0.f : dot[i] * of.factor[i] / n;
  }
  columns.x = x;
  slopes(columns, s.rows, sum.data(), dot.data(), dy, dx + first);
}

}  // namespace paracord::cpu
