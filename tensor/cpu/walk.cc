// Operations along a walk (Walk in ops.h), gathers, scatters, and random numbers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "common/mix.h"
#include "common/vector_widths.h"
#include "tensor/binary_formulas.h"
#include "tensor/cpu/cpu_ops_internal.h"
#include "tensor/cpu/elements.h"
#include "tensor/row_ids.h"

namespace paracord::cpu {
namespace {

// Calls inner(n, a, stride_a, b, stride_b, y, stride_y) for each run along the last axis; a, b and
// y are pointers or tensors.
template <class A, class B, class Y, class Inner>
void ForEach(const Walk& walk, size_t axis, A a, B b, Y y, const Inner& inner) {
  const bool has_b = !walk.b.empty();
  if (walk.dims.empty()) return inner(1, a, 0, b, 0, y, 0);
  const int64_t n = walk.dims[axis];
  const int64_t step_a = walk.a[axis], step_b = has_b ? walk.b[axis] : 0, step_y = walk.y[axis];
  if (axis + 1 == walk.dims.size()) return inner(n, a, step_a, b, step_b, y, step_y);
  for (int64_t i = 0; i < n; ++i) {
    ForEach(walk, axis + 1, a + i * step_a, has_b ? b + i * step_b : b, y + i * step_y, inner);
  }
}

// Calls use(f) with the function of two numbers for `kind`.
template <class Use>
PARACORD_KERNEL void WithFunction(BinaryKind kind, const Use& use) {
  switch (kind) {
    case BinaryKind::kAdd:
      return use([](float p, float q) __attribute__((always_inline)) { return p + q; });
    case BinaryKind::kSubtract:
      return use([](float p, float q) __attribute__((always_inline)) { return p - q; });
    case BinaryKind::kMultiply:
      return use([](float p, float q) __attribute__((always_inline)) { return p * q; });
    case BinaryKind::kDivide:
      return use([](float p, float q) __attribute__((always_inline)) { return p / q; });
    case BinaryKind::kMaximum:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p >= q || std::isnan(p) ? p : q; });
    case BinaryKind::kMinimum:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p <= q || std::isnan(p) ? p : q; });
    case BinaryKind::kGreaterEqual:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p >= q ? 1.f : 0.f; });
    case BinaryKind::kLess:
      return use([](float p, float q) __attribute__((always_inline)) { return p < q ? 1.f : 0.f; });
    case BinaryKind::kLessEqual:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p <= q ? 1.f : 0.f; });
    case BinaryKind::kGreater:
      return use([](float p, float q) __attribute__((always_inline)) { return p > q ? 1.f : 0.f; });
    case BinaryKind::kEqual:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p == q ? 1.f : 0.f; });
    case BinaryKind::kNotEqual:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p != q ? 1.f : 0.f; });
    case BinaryKind::kAnd:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p != 0 && q != 0 ? 1.f : 0.f; });
    case BinaryKind::kOr:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p != 0 || q != 0 ? 1.f : 0.f; });
    case BinaryKind::kModulo:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return formulas::ModuloOf(p, q); });
    case BinaryKind::kKeep:
      return use([](float p, float q) __attribute__((always_inline)) { return q != 0 ? p : 0.f; });
    case BinaryKind::kAddRelu:
      return use([](float p, float q)
                     __attribute__((always_inline)) { return p + q <= 0 ? 0.f : p + q; });
  }
}

PARACORD_KERNEL void BinaryOf(BinaryKind kind, int64_t n, const float* a, const float* b,
                              float* y) {
  WithFunction(
      kind, [&](auto f) __attribute__((always_inline)) {
        PARACORD_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
      });
}
PARACORD_WIDTHS(void, BinaryWide,
                (BinaryKind kind, int64_t n, const float* a, const float* b, float* y),
                BinaryOf(kind, n, a, b, y))

// The number of elements of `a` added to each element of y.
int64_t SummedBy(const Walk& walk) {
  int64_t count = 1;
  for (size_t i = 0; i < walk.dims.size(); ++i) count *= walk.y[i] == 0 ? walk.dims[i] : 1;
  return count;
}

// Computes y += a where each element of y gets many elements; the sums are in double.
void AddMany(const Walk& walk, ConstTensor a, Tensor y) {
  Walk to_sums = walk, from_sums;
  int64_t sums = 1;
  for (size_t i = walk.dims.size(); i-- > 0;) {
    if (walk.y[i] == 0) continue;
    to_sums.y[i] = sums;
    from_sums.dims.insert(from_sums.dims.begin(), walk.dims[i]);
    from_sums.a.insert(from_sums.a.begin(), sums);
    from_sums.y.insert(from_sums.y.begin(), walk.y[i]);
    sums *= walk.dims[i];
  }
  std::vector<double> sum(static_cast<size_t>(sums));
  ForEach(
      to_sums, 0, a, ConstTensor(), sum.data(),
      [](int64_t n, ConstTensor from, int64_t sa, ConstTensor, int64_t, double* py, int64_t sy) {
        With(from, [&](const auto* pa) {
          if (sy == 0) {
            double total = 0;
            for (int64_t i = 0; i < n; ++i) total += static_cast<double>(At(pa, i * sa));
            *py += total;
          } else if (sa == 1 && sy == 1) {
            for (int64_t i = 0; i < n; ++i) py[i] += static_cast<double>(At(pa, i));
          } else {
            for (int64_t i = 0; i < n; ++i) py[i * sy] += static_cast<double>(At(pa, i * sa));
          }
        });
      });
  ForEach(from_sums, 0, sum.data(), ConstTensor(), y,
          [](int64_t n, const double* pa, int64_t sa, ConstTensor, int64_t, Tensor to, int64_t sy) {
            With(to, [&](auto* py) {
              for (int64_t i = 0; i < n; ++i) {
                Put(py, i * sy, At(py, i * sy) + static_cast<float>(pa[i * sa]));
              }
            });
          });
}

}  // namespace

void Fill(int64_t n, float value, Tensor y) {
  if (y.bfloat16 != nullptr) {
    std::fill_n(y.bfloat16, n, formulas::Bfloat16Bits(value));
  } else {
    std::fill_n(y.float32, n, value);
  }
}

void Copy(const Walk& walk, bool add, ConstTensor a, Tensor y) {
  constexpr int64_t kFew = 256;
  const bool converts = a.bfloat16 != nullptr || y.bfloat16 != nullptr;
  if (add && (converts || SummedBy(walk) > kFew)) return AddMany(walk, a, y);
  if (converts) {
    return ForEach(
        walk, 0, a, ConstTensor(), y,
        [](int64_t n, ConstTensor from, int64_t sa, ConstTensor, int64_t, Tensor to, int64_t sy) {
          if (sa == 1 && sy == 1) return Convert(n, from, to);
          With(from, [&](const auto* pa) {
            With(to, [&](auto* py) {
              for (int64_t i = 0; i < n; ++i) Put(py, i * sy, At(pa, i * sa));
            });
          });
        });
  }
  ForEach(
      walk, 0, a.float32, ConstTensor(), y.float32,
      [add](int64_t n, const float* pa, int64_t sa, ConstTensor, int64_t, float* py, int64_t sy) {
        if (!add && sa == 1 && sy == 1) {
          std::memcpy(py, pa, static_cast<size_t>(n) * sizeof(float));
        } else if (!add) {
          for (int64_t i = 0; i < n; ++i) py[i * sy] = pa[i * sa];
        } else if (sy == 0) {
          double sum = 0;
          for (int64_t i = 0; i < n; ++i) sum += pa[i * sa];
          *py += static_cast<float>(sum);
        } else if (sa == 1 && sy == 1) {
          for (int64_t i = 0; i < n; ++i) py[i] += pa[i];
        } else {
          for (int64_t i = 0; i < n; ++i) py[i * sy] += pa[i * sa];
        }
      });
}

void FlatBinary(BinaryKind kind, int64_t n, const float* a, const float* b, float* y) {
  static const auto binary = PICK_WIDTH(BinaryWide);
  binary(kind, n, a, b, y);
}

namespace {

// Returns the numbers of a run contiguously: in place, or copied to `room`.
const float* Gathered(int64_t n, ConstTensor x, int64_t step, float* room) {
  if (x.bfloat16 == nullptr && step == 1) return x.float32;
  With(x, [&](const auto* from) {
    for (int64_t i = 0; i < n; ++i) room[i] = At(from, i * step);
  });
  return room;
}

// Works in parts that stay in the cache.
void BinaryOfEither(BinaryKind kind, int64_t n, ConstTensor a, int64_t sa, ConstTensor b,
                    int64_t sb, Tensor y, int64_t sy) {
  constexpr int64_t kPart = 1024;
  float room_a[kPart], room_b[kPart], result[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = std::min(kPart, n - at);
    FlatBinary(kind, count, Gathered(count, a + at * sa, sa, room_a),
               Gathered(count, b + at * sb, sb, room_b), result);
    if (sy == 1) {
      Convert(count, result, y + at);
      continue;
    }
    With(y + at * sy, [&](auto* to) {
      for (int64_t i = 0; i < count; ++i) Put(to, i * sy, result[i]);
    });
  }
}

}  // namespace

void Binary(BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b, Tensor y) {
  if (a.bfloat16 != nullptr || b.bfloat16 != nullptr || y.bfloat16 != nullptr) {
    return ForEach(
        walk, 0, a, b, y,
        [kind](int64_t n, ConstTensor pa, int64_t sa, ConstTensor pb, int64_t sb, Tensor py,
               int64_t sy) { BinaryOfEither(kind, n, pa, sa, pb, sb, py, sy); });
  }
  ForEach(walk, 0, a.float32, b.float32, y.float32,
          [kind](int64_t n, const float* pa, int64_t sa, const float* pb, int64_t sb, float* py,
                 int64_t sy) {
            if (sa == 1 && sb == 1 && sy == 1) return FlatBinary(kind, n, pa, pb, py);
            WithFunction(
                kind, [&](auto f) __attribute__((always_inline)) {
                  for (int64_t i = 0; i < n; ++i) py[i * sy] = f(pa[i * sa], pb[i * sb]);
                });
          });
}

void Gather(int64_t count, int64_t width, int64_t table_rows, const float* ids, const float* table,
            float* y) {
  for (int64_t i = 0; i < count; ++i, y += width) {
    const int64_t row = RowOfFloat(ids[i], table_rows);
    if (row < 0) {
      std::fill(y, y + width, 0.f);
    } else {
      std::memcpy(y, table + row * width, static_cast<size_t>(width) * sizeof(float));
    }
  }
}

namespace {

// Writes the sum of the rows of dy listed in `places`, recursively cut after a power of two of
// rows: rounding errors grow with the logarithm of their number. `spare` has room for a row for
// each cut on the way down.
void SumByHalves(int64_t width, const float* dy, std::span<const int64_t> places, float* sum,
                 float* spare) {
  if (places.size() <= 3) {
    std::copy_n(dy + places[0] * width, width, sum);
    for (const int64_t place : places.subspan(1)) Add(width, dy + place * width, sum);
    return;
  }
  const size_t half = std::bit_floor(places.size() - 1);
  SumByHalves(width, dy, places.first(half), sum, spare);
  SumByHalves(width, dy, places.subspan(half), spare, spare + width);
  Add(width, spare, sum);
}

}  // namespace

void ScatterAdd(int64_t count, int64_t width, int64_t table_rows, const float* ids, const float* dy,
                float* dtable) {
  std::fill(dtable, dtable + table_rows * width, 0.f);
  thread_local std::vector<int64_t> ends;  // end of each row's places; at first their number
  ends.assign(static_cast<size_t>(table_rows), 0);
  int64_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = RowOfFloat(ids[i], table_rows);
    if (row >= 0) most = std::max(most, ++ends[static_cast<size_t>(row)]);
  }
  if (most <= 3) {  // halves and a plain loop then add in the same order
    for (int64_t i = 0; i < count; ++i, dy += width) {
      const int64_t row = RowOfFloat(ids[i], table_rows);
      if (row >= 0) Add(width, dy, dtable + row * width);
    }
    return;
  }
  int64_t placed = 0;
  for (int64_t& end : ends) placed += std::exchange(end, placed);
  thread_local std::vector<int64_t> places;
  places.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = RowOfFloat(ids[i], table_rows);
    if (row >= 0) places[static_cast<size_t>(ends[static_cast<size_t>(row)]++)] = i;
  }
  const auto cuts = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(most)));
  thread_local std::vector<float> sum;
  sum.resize(static_cast<size_t>(width) * (cuts + 2));
  const auto all = std::span<const int64_t>(places).first(static_cast<size_t>(placed));
  size_t begin = 0;
  for (const int64_t end : ends) {
    const std::span<const int64_t> own = all.subspan(begin, static_cast<size_t>(end) - begin);
    if (!own.empty()) {
      SumByHalves(width, dy, own, sum.data(), sum.data() + width);
      Add(width, sum.data(), dtable);  // added to zeros: a sum is never negative zero
    }
    dtable += width;
    begin += own.size();
  }
}

// The Box-Muller transform of two uniform numbers from a hash.
void AddNoise(uint64_t key, float stddev, int64_t first, int64_t n, const float* x, float* y) {
  const uint64_t mixed = Mix64(key);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t hash = Mix64(mixed ^ static_cast<uint64_t>(first + i));
    const double u = (static_cast<double>(hash >> 32) + 0.5) / 4294967296.0;
    const double v = static_cast<double>(hash & 0xffffffff) / 4294967296.0;
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
    y[i] = x[i] + stddev * static_cast<float>(normal);
  }
}

double Penalty(int64_t n, float l1, float l2, const float* x, float scale, float* dx) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    sum += static_cast<double>(l1) * std::abs(v) + static_cast<double>(l2) * v * v;
    if (dx == nullptr) continue;
    const float sign = v > 0 ? 1.f : (v < 0 ? -1.f : 0.f);
    dx[i] += scale * (l1 * sign + 2 * l2 * v);
  }
  return sum;
}

}  // namespace paracord::cpu
