// Normalisation of columns over their rows (batch), of some of the columns at a time. Sums are of
// blocks of rows, so that long columns lose no digits.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/vector_widths.h"
#include "worker/ops/cpu/cpu_ops_internal.h"
#include "worker/ops/cpu/elements.h"

namespace paracord::cpu {
namespace {

constexpr int64_t kBlock = 256;

// Rows of x, and what is the same along each column.
struct Columns {
  int64_t step = 0, count = 0;  // from row to row, and of a row
  ConstTensor x = {};
  const float *mean = nullptr, *factor = nullptr;
  const float *whole = nullptr, *offset = nullptr;  // the factor with the scale
  float relu = 0;
};

// Before the ReLU, there and back the same bits.
PARACORD_KERNEL float ValueOf(const Columns& c, float x, int64_t i) {
  return (x - c.mean[i]) * c.whole[i] + c.offset[i];
}
template <bool kRelu>
PARACORD_KERNEL float SlopeOf(const Columns& c, float x, float dy, int64_t i) {
  if constexpr (!kRelu) return dy;
  const float v = ValueOf(c, x, i);
  return static_cast<int>(v > 0) & static_cast<int>(v < c.relu) ? dy : 0.f;
}

template <class X>
PARACORD_KERNEL void AddRows(const Columns c, const X* x, int64_t rows, float* sum) {
  for (int64_t r = 0; r < rows; ++r, x += c.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) sum[i] += At(x, i);
  }
}
PARACORD_WIDTHS(void, AddRowsWide, (const Columns& c, int64_t rows, float* sum),
                c.x.bfloat16 == nullptr ? AddRows(c, c.x.float32, rows, sum)
                                        : AddRows(c, c.x.bfloat16, rows, sum))

template <class X>
PARACORD_KERNEL void AddSquares(const Columns c, const X* x, int64_t rows, float* sum) {
  for (int64_t r = 0; r < rows; ++r, x += c.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      const float off = At(x, i) - c.mean[i];
      sum[i] += off * off;
    }
  }
}
PARACORD_WIDTHS(void, AddSquaresWide, (const Columns& c, int64_t rows, float* sum),
                c.x.bfloat16 == nullptr ? AddSquares(c, c.x.float32, rows, sum)
                                        : AddSquares(c, c.x.bfloat16, rows, sum))

template <bool kRelu, class X, class Y>
PARACORD_KERNEL void AddSlopes(const Columns c, const X* x, int64_t rows, const Y* dy, float* sum,
                               float* dot) {
  for (int64_t r = 0; r < rows; ++r, x += c.step, dy += c.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      const float own = At(x, i), d = SlopeOf<kRelu>(c, own, At(dy, i), i);
      sum[i] += d;
      dot[i] += d * (own - c.mean[i]) * c.factor[i];
    }
  }
}
PARACORD_KERNEL void AddSlopesOf(const Columns& c, int64_t rows, ConstTensor dy, float* sum,
                                 float* dot) {
  With(
      c.x, [&](const auto* x) __attribute__((always_inline)) {
        With(
            dy, [&](const auto* d) __attribute__((always_inline)) {
              c.relu == 0 ? AddSlopes<false>(c, x, rows, d, sum, dot)
                          : AddSlopes<true>(c, x, rows, d, sum, dot);
            });
      });
}
PARACORD_WIDTHS(void, AddSlopesWide,
                (const Columns& c, int64_t rows, ConstTensor dy, float* sum, float* dot),
                AddSlopesOf(c, rows, dy, sum, dot))

template <class X, class Y>
PARACORD_KERNEL void Values(const Columns c, const X* x, int64_t rows, Y* y) {
  for (int64_t r = 0; r < rows; ++r, x += c.step, y += c.step) {
    if (c.relu == 0) {
      PARACORD_INDEPENDENT
      for (int64_t i = 0; i < c.count; ++i) Put(y, i, ValueOf(c, At(x, i), i));
    } else {
      PARACORD_INDEPENDENT
      for (int64_t i = 0; i < c.count; ++i) {
        const float v = ValueOf(c, At(x, i), i), low = v <= 0 ? 0.f : v;  // keeps a NaN
        Put(y, i, low > c.relu ? c.relu : low);
      }
    }
  }
}
PARACORD_KERNEL void ValuesOf(const Columns& c, int64_t rows, Tensor y) {
  With(
      c.x, [&](const auto* x) __attribute__((always_inline)) {
        With(
            y, [&](auto* to) __attribute__((always_inline)) { Values(c, x, rows, to); });
      });
}
PARACORD_WIDTHS(void, ValuesWide, (const Columns& c, int64_t rows, Tensor y), ValuesOf(c, rows, y))

template <bool kRelu, class X, class Y>
PARACORD_KERNEL void Slopes(const Columns c, const X* x, int64_t rows, const float* sum,
                            const float* dot, const Y* dy, X* dx) {
  for (int64_t r = 0; r < rows; ++r, x += c.step, dy += c.step, dx += c.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      const float own = At(x, i), d = SlopeOf<kRelu>(c, own, At(dy, i), i);
      Put(dx, i, c.whole[i] * (d - sum[i] - (own - c.mean[i]) * dot[i]));
    }
  }
}
PARACORD_KERNEL void SlopesOf(const Columns& c, int64_t rows, const float* sum, const float* dot,
                              ConstTensor dy, Tensor dx) {
  With(
      dy, [&](const auto* d) __attribute__((always_inline)) {
        if (dx.bfloat16 == nullptr) {
          c.relu == 0 ? Slopes<false>(c, c.x.float32, rows, sum, dot, d, dx.float32)
                      : Slopes<true>(c, c.x.float32, rows, sum, dot, d, dx.float32);
        } else {
          c.relu == 0 ? Slopes<false>(c, c.x.bfloat16, rows, sum, dot, d, dx.bfloat16)
                      : Slopes<true>(c, c.x.bfloat16, rows, sum, dot, d, dx.bfloat16);
        }
      });
}
PARACORD_WIDTHS(void, SlopesWide,
                (const Columns& c, int64_t rows, const float* sum, const float* dot, ConstTensor dy,
                 Tensor dx),
                SlopesOf(c, rows, sum, dot, dy, dx))

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

void ColumnMoments(const NormShape& s, ConstTensor x, float* mean, float* variance, int64_t first,
                   int64_t count) {
  static const auto add_rows = PICK_WIDTH(AddRowsWide);
  static const auto add_squares = PICK_WIDTH(AddSquaresWide);
  mean += first, variance += first;
  Columns columns{.step = s.columns, .count = count, .mean = mean};
  const auto of = [&](auto* add, float* moment) {
    const std::vector<double> sum =
        InBlocks(s.rows, count, [&](int64_t begin, int64_t rows, float* part) {
          columns.x = x + (begin * s.columns + first);
          add(columns, rows, part);
        });
    for (size_t i = 0; i < sum.size(); ++i) {
      moment[i] = static_cast<float>(sum[i]) / static_cast<float>(s.rows);
    }
  };
  of(add_rows, mean);
  of(add_squares, variance);
}

void NormalizeColumns(const NormShape& s, ConstTensor x, const float* mean, const float* variance,
                      const float* scale, const float* offset, Tensor y, int64_t first,
                      int64_t count) {
  static const auto values = PICK_WIDTH(ValuesWide);
  const Factors of(s, variance, scale, offset, 0, s.columns);
  const int64_t at = first * s.columns;
  values({s.columns, s.columns, x + at, mean, nullptr, of.whole.data(), of.offset.data(), s.relu},
         count, y + at);
}

void NormColumnsBackward(const NormShape& s, bool constant, ConstTensor x, const float* mean,
                         const float* variance, const float* scale, const float* offset,
                         ConstTensor dy, Tensor dx, float* dscale, float* doffset, int64_t first,
                         int64_t count) {
  static const auto add_slopes = PICK_WIDTH(AddSlopesWide);
  static const auto slopes = PICK_WIDTH(SlopesWide);
  const Factors of(s, variance, scale, offset, first, count);
  Columns columns{s.columns,        count,           x + first,        mean + first,
                  of.factor.data(), of.whole.data(), of.offset.data(), s.relu};
  const std::vector<double> sums =
      InBlocks(s.rows, 2 * count, [&](int64_t begin, int64_t rows, float* part) {
        const int64_t at = begin * s.columns + first;
        columns.x = x + at;
        add_slopes(columns, rows, dy + at, part, part + count);
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
  columns.x = x + first;
  slopes(columns, s.rows, sum.data(), dot.data(), dy + first, dx + first);
}

}  // namespace paracord::cpu
