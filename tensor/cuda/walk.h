// Kernel bodies along a walk (Walk in ops.h), and of gathers and scatters.
#pragma once

#include <cmath>

#include "tensor/binary_formulas.h"
#include "tensor/cuda/pointer.h"
#include "tensor/ops.h"
#include "tensor/row_ids.h"

namespace paracord::cuda {

constexpr int kAxesMax = 8;

// A Walk of 1 to kAxesMax axes, as a kernel argument.
struct Axes {
  // The most elements of a thread. A thread's elements differ only in the index along the outermost
  // axis, where they are as far apart as possible: neighbouring threads have neighbouring elements,
  // and a thread divides its index into axes once for all its elements.
  static constexpr int kTogether = 4;
  int count = 1;
  int64_t dims[kAxesMax] = {1}, a[kAxesMax] = {}, b[kAxesMax] = {}, y[kAxesMax] = {};
  int64_t total = 1;

  struct At {
    int64_t a = 0, b = 0, y = 0;  // offsets of an element, in elements
    int64_t first = 0;            // index along the outermost axis
  };
  template <class Index>
  PARACORD_HD At By(Index i) const {
    At at;
#ifdef __CUDACC__
#pragma unroll 1  // a kernel inlines this function several times
#endif
    for (int axis = count; axis-- > 1;) {
      const auto dim = static_cast<Index>(dims[axis]);
      const auto index = static_cast<int64_t>(i % dim);
      i /= dim;
      at.a += index * a[axis];
      at.b += index * b[axis];
      at.y += index * y[axis];
    }
    at.first = static_cast<int64_t>(i);
    return Further(at, at.first);
  }
  // The offsets of the first element of thread i. Divides in 32 bits if `total` allows, which is
  // several times as fast as in 64 bits.
  PARACORD_HD At Of(int64_t i) const {
    return total <= 0x7fffffff ? By(static_cast<uint32_t>(i)) : By(static_cast<uint64_t>(i));
  }
  PARACORD_HD At Further(const At& at, int64_t steps) const {
    return {at.a + steps * a[0], at.b + steps * b[0], at.y + steps * y[0], at.first};
  }
  PARACORD_HD int64_t Apart() const { return (dims[0] + kTogether - 1) / kTogether; }
  int64_t Threads() const { return total == 0 ? 0 : total / dims[0] * Apart(); }
  // Calls work(k, at of element k) for each of the thread's elements; `at` is that of the first.
  template <class Work>
  PARACORD_HD void Together(const At& at, const Work& work) const {
    const int64_t apart = Apart();
    for (int k = 0; k < kTogether; ++k) {
      if (at.first + k * apart < dims[0]) work(k, Further(at, k * apart));
    }
  }
};

struct CopyWalkBody {
  Axes axes;
  bool add;
  AnyIn a;
  AnyOut y;
  PARACORD_HD void operator()(int64_t i) const {
    const Axes::At first = axes.Of(i);
    Bits taken[Axes::kTogether], there[Axes::kTogether];
    axes.Together(first, [&](int k, const Axes::At& at) {
      taken[k] = a.Load(at.a);
      if (add) there[k] = y.Load(at.y);
    });
    axes.Together(first, [&](int k, const Axes::At& at) {
      const float v = a.Of(taken[k]);
      y.Store(at.y, add ? y.Of(there[k]) + v : v);
    });
  }
};

// Transposes matrices: a (rows, columns), one after another, become y (columns, rows). Every 64
// threads move kTiles tiles of 8 x 8, one below the other: a warp reads whole sectors of memory and
// writes half sectors, and a thread divides its index once for all tiles.
struct TransposeBody {
  static constexpr int kTile = 8, kTiles = 4, kRows = kTile * kTiles;
  int64_t rows, columns;
  AnyIn a;
  AnyOut y;
  PARACORD_HD int64_t Down() const { return (rows + kRows - 1) / kRows; }
  PARACORD_HD int64_t Across() const { return (columns + kTile - 1) / kTile; }
  // The number of threads for this many matrices.
  int64_t Threads(int64_t matrices) const { return matrices * Down() * Across() * kTile * kTile; }
  template <class Index>
  PARACORD_HD void Move(Index i) const {
    const Index tile = i / (kTile * kTile), across = static_cast<Index>(Across());
    const Index line = tile / across, down = static_cast<Index>(Down());
    const int64_t first = static_cast<int64_t>(line % down * kRows + i / kTile % kTile);
    const int64_t column = static_cast<int64_t>(tile % across * kTile + i % kTile);
    const int64_t matrix = static_cast<int64_t>(line / down) * rows * columns;
    if (column >= columns) return;
    Bits taken[kTiles];
    for (int k = 0; k < kTiles; ++k) {
      const int64_t row = first + k * kTile;
      if (row < rows) taken[k] = a.Load(matrix + row * columns + column);
    }
    for (int k = 0; k < kTiles; ++k) {
      const int64_t row = first + k * kTile;
      if (row < rows) y.Store(matrix + column * rows + row, a.Of(taken[k]));
    }
  }
  PARACORD_HD void operator()(int64_t i) const {
    return i <= 0x7fffffff ? Move(static_cast<uint32_t>(i)) : Move(static_cast<uint64_t>(i));
  }
};

// Sums over the axes with stride 0 in y.
struct SumWalkBody {
  using Value = double;
  using Loaded = Bits;
  static constexpr bool kMaps = false;
  Axes outer, inner;
  AnyIn a;
  AnyOut y;
  PARACORD_HD double Start(int64_t) const { return 0; }
  PARACORD_HD int64_t From(int64_t i) const { return outer.Of(i).a; }
  PARACORD_HD Bits Load(int64_t from, int64_t k) const { return a.Load(from + inner.Of(k).a); }
  PARACORD_HD void Take(Bits own, double& value) const { value += static_cast<double>(a.Of(own)); }
  PARACORD_HD void Merge(double& value, double other) const { value += other; }
  PARACORD_HD void Finish(int64_t i, double value) const {
    const int64_t at = outer.Of(i).y;
    y.Store(at, y.Of(y.Load(at)) + static_cast<float>(value));
  }
};

PARACORD_HD inline float BinaryOf(BinaryKind kind, float p, float q) {
  switch (kind) {
    case BinaryKind::kAdd:
      return p + q;
    case BinaryKind::kSubtract:
      return p - q;
    case BinaryKind::kMultiply:
      return p * q;
    case BinaryKind::kDivide:
      return p / q;
    case BinaryKind::kMaximum:
      return p >= q || std::isnan(p) ? p : q;
    case BinaryKind::kMinimum:
      return p <= q || std::isnan(p) ? p : q;
    case BinaryKind::kGreaterEqual:
      return p >= q ? 1.f : 0.f;
    case BinaryKind::kLess:
      return p < q ? 1.f : 0.f;
    case BinaryKind::kLessEqual:
      return p <= q ? 1.f : 0.f;
    case BinaryKind::kGreater:
      return p > q ? 1.f : 0.f;
    case BinaryKind::kEqual:
      return p == q ? 1.f : 0.f;
    case BinaryKind::kNotEqual:
      return p != q ? 1.f : 0.f;
    case BinaryKind::kAnd:
      return p != 0 && q != 0 ? 1.f : 0.f;
    case BinaryKind::kOr:
      return p != 0 || q != 0 ? 1.f : 0.f;
    case BinaryKind::kModulo:
      return formulas::ModuloOf(p, q);
    case BinaryKind::kKeep:
      return q != 0 ? p : 0.f;
    case BinaryKind::kAddRelu:
      return p + q <= 0 ? 0.f : p + q;
  }
  return 0;
}

struct BinaryBody {
  BinaryKind kind;
  Axes axes;
  AnyIn a, b;
  AnyOut y;
  PARACORD_HD void operator()(int64_t i) const {
    const Axes::At first = axes.Of(i);
    Bits p[Axes::kTogether], q[Axes::kTogether];
    axes.Together(first, [&](int k, const Axes::At& at) {
      p[k] = a.Load(at.a);
      q[k] = b.Load(at.b);
    });
    axes.Together(first, [&](int k, const Axes::At& at) {
      y.Store(at.y, BinaryOf(kind, a.Of(p[k]), b.Of(q[k])));
    });
  }
};

// A binary operation on tensors that are contiguous along the walk.
struct FlatBinaryBody {
  struct Loaded {
    Bits a, b;
  };
  BinaryKind kind;
  AnyIn a, b;
  AnyOut y;
  PARACORD_HD Loaded Load(int64_t i) const { return {a.Load(i), b.Load(i)}; }
  PARACORD_HD float Value(int64_t, const Loaded& own) const {
    return BinaryOf(kind, a.Of(own.a), b.Of(own.b));
  }
  PARACORD_HD void Store(int64_t i, float v) const { y.Store(i, v); }
};

struct GatherBody {
  int64_t width, rows;
  In ids, table;
  Out y;
  PARACORD_HD void operator()(int64_t i) const {
    const int64_t row = RowOfFloat(ids[i / width], rows);
    y[i] = row < 0 ? 0.f : static_cast<float>(table[row * width + i % width]);
  }
};

// A scatter sorts the indices i of ids by row, for a fixed order of sums without atomics. The key
// of index i is row * count + i: all keys differ.
struct ScatterKeyBody {
  int64_t count, rows;
  In ids;
  Ptr<int64_t> keys;
  PARACORD_HD void operator()(int64_t i) const {
    const int64_t row = RowOfFloat(ids[i], rows);
    keys[i] = (row < 0 ? rows : row) * count + i;
  }
};

// Merges sorted runs of `run` keys pairwise: a thread finds the position of its key in the other
// run of the pair.
struct MergeRunsBody {
  int64_t count, run;
  Ptr<const int64_t> from;
  Ptr<int64_t> to;
  PARACORD_HD void operator()(int64_t i) const {
    const int64_t own = i / run * run;
    const int64_t pair = i / (2 * run) * (2 * run);
    const int64_t other = own == pair ? own + run : pair;
    const int64_t key = from[i];
    int64_t low = other, high = other + run;
    if (low > count) low = count;
    if (high > count) high = count;
    const int64_t begin = low;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (from[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    to[pair + (i - own) + (low - begin)] = key;
  }
};

// The thread of a row's first key sums dy over all keys of the row, in the order of
// Ops::ScatterAdd. A single row may have most of the keys (a padding id): kPlaces keys and numbers
// are loaded before the keys are compared with the row's end.
struct ScatterSumBody {
  static constexpr int kPlaces = 16;
  static constexpr int kLevels = 40;
  int64_t count, width, rows;
  Ptr<const int64_t> keys;
  In dy;
  Out dtable;
  PARACORD_HD void operator()(int64_t i) const {
    const int64_t at = i / width, column = i % width;
    const int64_t row = keys[at] / count;
    const int64_t begin = row * count, end = begin + count;  // the keys of the row
    if (row >= rows || (at > 0 && keys[at - 1] >= begin)) return;
    // partial[k] is the sum of 2^k blocks of kPlaces numbers, for each bit k set in `blocks`.
    float partial[kLevels];
    int64_t blocks = 0;
    float sum = 0;
    bool more = true;
    for (int64_t k = at; more; k += kPlaces) {
      int64_t key[kPlaces];
      float value[kPlaces];
      for (int p = 0; p < kPlaces; ++p) key[p] = k + p < count ? keys[k + p] : end;
      for (int p = 0; p < kPlaces; ++p) {
        value[p] = key[p] < end ? dy[(key[p] - begin) * width + column] : 0.f;
      }
      for (int step = 1; step < kPlaces; step *= 2) {
        for (int p = 0; p + step < kPlaces; p += 2 * step) value[p] += value[p + step];
      }
      sum = value[0];
      more = key[kPlaces - 1] < end;
      int level = 0;
      for (int64_t b = blocks; b > 0 && (!more || (b & 1) != 0); b >>= 1, ++level) {
        if ((b & 1) != 0) sum = partial[level] + sum;
      }
      if (more) partial[level] = sum;
      ++blocks;
    }
    dtable[row * width + column] = 0 + sum;  // never the negative zero
  }
};

}  // namespace paracord::cuda
