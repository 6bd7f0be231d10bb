// Normalisation of each column over its rows (batch normalisation), for a range of columns. Sums of
// blocks of rows are added in double: long columns lose no digits. bfloat16 is converted in parts
// of several rows that stay in the cache, because a single short row is too little for a vectorised
// loop.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/vector_widths.h"
#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/cpu/elements.h"

namespace paracord::cpu {
namespace {

constexpr int64_t kRowsAtOnce = 256;
constexpr int64_t kPart = 2048;  // floats

// Rows of float32: a pointer to the first, and the stride to the next.
template <class Float>
struct Rows {
  Float* at = nullptr;
  int64_t step = 0;
};

template <class X, class Y>
PARACORD_KERNEL void MoveRows(int64_t rows, int64_t count, Rows<X> x, Rows<Y> y) {
  if (x.step == count && y.step == count) count *= std::exchange(rows, 1);
  for (int64_t r = 0; r < rows; ++r, x.at += x.step, y.at += y.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) Put(y.at, i, At(x.at, i));
  }
}
PARACORD_WIDTHS(void, WidenWide,
                (int64_t rows, int64_t count, Rows<const uint16_t> x, Rows<float> y),
                MoveRows(rows, count, x, y))
PARACORD_WIDTHS(void, RoundWide, (int64_t rows, int64_t count, Rows<float> x, Rows<uint16_t> y),
                MoveRows(rows, count, x, y))

// A range of columns of a tensor (rows, columns), seen as float32.
template <class OfTensor>
class SomeColumns {
 public:
  SomeColumns(OfTensor all, int64_t columns, int64_t first, int64_t count)
      : all_(all + first), columns_(columns), count_(count) {
    if (all.bfloat16 != nullptr) room_.resize(static_cast<size_t>(count * AtOnce()));
  }
  // The number of rows in the conversion buffer.
  int64_t AtOnce() const {
    if (all_.bfloat16 == nullptr) return std::numeric_limits<int64_t>::max();
    return std::max<int64_t>(1, kPart / count_);
  }
  Rows<const float> Read(int64_t begin, int64_t rows) {
    static const auto widen = PICK_WIDTH(WidenWide);
    const OfTensor at = all_ + begin * columns_;
    if (at.bfloat16 == nullptr) return {at.float32, columns_};
    widen(rows, count_, {at.bfloat16, columns_}, {room_.data(), count_});
    return {room_.data(), count_};
  }
  // Returns memory for `count_` columns of rows to be written; Written stores them.
  Rows<float> Room(int64_t begin) {
    const OfTensor at = all_ + begin * columns_;
    if (at.bfloat16 == nullptr) return {at.float32, columns_};
    return {room_.data(), count_};
  }
  void Written(int64_t begin, int64_t rows) {
    static const auto round = PICK_WIDTH(RoundWide);
    const OfTensor at = all_ + begin * columns_;
    if (at.bfloat16 == nullptr) return;
    round(rows, count_, {room_.data(), count_}, {at.bfloat16, columns_});
  }

 private:
  const OfTensor all_;
  const int64_t columns_, count_;
  std::vector<float> room_;
};
using Source = SomeColumns<ConstTensor>;
using Target = SomeColumns<Tensor>;

// Calls work(begin, count) for the rows from `begin` to before `end`, at most `most` at a time.
template <class Work>
void InParts(int64_t begin, int64_t end, int64_t most, const Work& work) {
  for (int64_t count = 0; begin < end; begin += count) {
    count = std::min(most, end - begin);
    work(begin, count);
  }
}

// Numbers constant along each column.
struct Columns {
  int64_t count = 0;
  const float *mean = nullptr, *factor = nullptr;
  const float *whole = nullptr, *offset = nullptr;  // `whole` is the factor times the scale
  float relu = 0;
};
using In = Rows<const float>;
using Out = Rows<float>;

// The value before the ReLU; forward and backward compute the same bits.
PARACORD_KERNEL float ValueOf(const Columns& c, const float* x, int64_t i) {
  return (x[i] - c.mean[i]) * c.whole[i] + c.offset[i];
}
template <bool kRelu>
PARACORD_KERNEL float SlopeOf(const Columns& c, const float* x, const float* dy, int64_t i) {
  if constexpr (!kRelu) return dy[i];
  const float v = ValueOf(c, x, i);
  return static_cast<int>(v > 0) & static_cast<int>(v < c.relu) ? dy[i] : 0.f;
}

PARACORD_KERNEL void AddRows(const Columns c, int64_t rows, In x, float* sum) {
  for (int64_t r = 0; r < rows; ++r, x.at += x.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) sum[i] += x.at[i];
  }
}
PARACORD_WIDTHS(void, AddRowsWide, (const Columns& c, int64_t rows, In x, float* sum),
                AddRows(c, rows, x, sum))

PARACORD_KERNEL void AddSquares(const Columns c, int64_t rows, In x, float* sum) {
  for (int64_t r = 0; r < rows; ++r, x.at += x.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      const float off = x.at[i] - c.mean[i];
      sum[i] += off * off;
    }
  }
}
PARACORD_WIDTHS(void, AddSquaresWide, (const Columns& c, int64_t rows, In x, float* sum),
                AddSquares(c, rows, x, sum))

template <bool kRelu>
PARACORD_KERNEL void AddSlopes(const Columns c, int64_t rows, In x, In dy, float* sum, float* dot) {
  for (int64_t r = 0; r < rows; ++r, x.at += x.step, dy.at += dy.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      const float d = SlopeOf<kRelu>(c, x.at, dy.at, i);
      sum[i] += d;
      dot[i] += d * (x.at[i] - c.mean[i]) * c.factor[i];
    }
  }
}
PARACORD_WIDTHS(void, AddSlopesWide,
                (const Columns& c, int64_t rows, In x, In dy, float* sum, float* dot),
                c.relu == 0 ? AddSlopes<false>(c, rows, x, dy, sum, dot)
                            : AddSlopes<true>(c, rows, x, dy, sum, dot))

PARACORD_KERNEL void Values(const Columns c, int64_t rows, In x, Out y) {
  for (int64_t r = 0; r < rows; ++r, x.at += x.step, y.at += y.step) {
    if (c.relu == 0) {
      PARACORD_INDEPENDENT
      for (int64_t i = 0; i < c.count; ++i) y.at[i] = ValueOf(c, x.at, i);
    } else {
      PARACORD_INDEPENDENT
      for (int64_t i = 0; i < c.count; ++i) {
        const float v = ValueOf(c, x.at, i), low = v <= 0 ? 0.f : v;  // the comparison keeps a NaN
        y.at[i] = low > c.relu ? c.relu : low;
      }
    }
  }
}
PARACORD_WIDTHS(void, ValuesWide, (const Columns& c, int64_t rows, In x, Out y),
                Values(c, rows, x, y))

template <bool kRelu>
PARACORD_KERNEL void Slopes(const Columns c, int64_t rows, const float* sum, const float* dot, In x,
                            In dy, Out dx) {
  for (int64_t r = 0; r < rows; ++r, x.at += x.step, dy.at += dy.step, dx.at += dx.step) {
    PARACORD_INDEPENDENT
    for (int64_t i = 0; i < c.count; ++i) {
      const float d = SlopeOf<kRelu>(c, x.at, dy.at, i);
      dx.at[i] = c.whole[i] * (d - sum[i] - (x.at[i] - c.mean[i]) * dot[i]);
    }
  }
}
PARACORD_WIDTHS(void, SlopesWide,
                (const Columns& c, int64_t rows, const float* sum, const float* dot, In x, In dy,
                 Out dx),
                c.relu == 0 ? Slopes<false>(c, rows, sum, dot, x, dy, dx)
                            : Slopes<true>(c, rows, sum, dot, x, dy, dx))

// The numbers behind the pointers of Columns, for the columns from `first` on.
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

// Adds up, in double, the results of add(row, count, part) in `part`, n numbers initially 0. Calls
// add for blocks of at most `most` rows.
template <class Add>
std::vector<double> InBlocks(int64_t rows, int64_t n, int64_t most, const Add& add) {
  std::vector<double> sum(static_cast<size_t>(n));
  std::vector<float> part(sum.size());
  for (int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    std::fill(part.begin(), part.end(), 0.f);
    InParts(begin, std::min(begin + kRowsAtOnce, rows), most,
            [&](int64_t at, int64_t count) { add(at, count, part.data()); });
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
  Source from(x, s.columns, first, count);
  const Columns columns{.count = count, .mean = mean};
  const auto of = [&](auto* add, float* moment) {
    const std::vector<double> sum =
        InBlocks(s.rows, count, from.AtOnce(), [&](int64_t begin, int64_t rows, float* part) {
          add(columns, rows, from.Read(begin, rows), part);
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
  const Columns columns{s.columns, mean, nullptr, of.whole.data(), of.offset.data(), s.relu};
  Source from(x, s.columns, 0, s.columns);
  Target to(y, s.columns, 0, s.columns);
  const int64_t most = std::min(from.AtOnce(), to.AtOnce());
  InParts(first, first + count, most, [&](int64_t begin, int64_t rows) {
    values(columns, rows, from.Read(begin, rows), to.Room(begin));
    to.Written(begin, rows);
  });
}

void NormColumnsBackward(const NormShape& s, bool constant, ConstTensor x, const float* mean,
                         const float* variance, const float* scale, const float* offset,
                         ConstTensor dy, Tensor dx, float* dscale, float* doffset, int64_t first,
                         int64_t count) {
  static const auto add_slopes = PICK_WIDTH(AddSlopesWide);
  static const auto slopes = PICK_WIDTH(SlopesWide);
  const Factors of(s, variance, scale, offset, first, count);
  const Columns columns{count,           mean + first,     of.factor.data(),
                        of.whole.data(), of.offset.data(), s.relu};
  Source from(x, s.columns, first, count), d_from(dy, s.columns, first, count);
  const int64_t most = std::min(from.AtOnce(), d_from.AtOnce());
  const std::vector<double> sums =
      InBlocks(s.rows, 2 * count, most, [&](int64_t begin, int64_t rows, float* part) {
        add_slopes(columns, rows, from.Read(begin, rows), d_from.Read(begin, rows), part,
                   part + count);
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
  Target to(dx, s.columns, first, count);
  InParts(0, s.rows, std::min(most, to.AtOnce()), [&](int64_t begin, int64_t rows) {
    slopes(columns, rows, sum.data(), dot.data(), from.Read(begin, rows), d_from.Read(begin, rows),
           to.Room(begin));
    to.Written(begin, rows);
  });
}

}  // namespace paracord::cpu
