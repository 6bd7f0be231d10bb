// Operations along a walk. A walk of few axes is a single launch.
#include "tensor/cuda/walk.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/engine.h"

namespace paracord::cuda {
namespace {

int64_t Elements(const Walk& walk) {
  int64_t elements = 1;
  for (const int64_t dim : walk.dims) elements *= dim;
  return elements;
}

// The axes of a walk for which taken(stride of y) is true, ordered by y's strides unless all are 0.
// Axes that form a single axis are joined.
template <class Taken>
Walk Joined(const Walk& walk, const Taken& taken) {
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < walk.dims.size(); ++axis) {
    if (walk.dims[axis] != 1 && taken(walk.y[axis])) axes.push_back(axis);
  }
  std::stable_sort(axes.begin(), axes.end(), [&](size_t one, size_t other) {
    return std::abs(walk.y[one]) > std::abs(walk.y[other]);
  });
  Walk to;
  for (const size_t axis : axes) {
    const int64_t dim = walk.dims[axis], a = walk.a[axis], y = walk.y[axis];
    const int64_t b = walk.b.empty() ? 0 : walk.b[axis];
    if (to.dims.empty() || to.a.back() != dim * a || to.b.back() != dim * b ||
        to.y.back() != dim * y) {
      to.dims.push_back(dim), to.a.push_back(a), to.b.push_back(b), to.y.push_back(y);
    } else {
      to.dims.back() *= dim, to.a.back() = a, to.b.back() = b, to.y.back() = y;
    }
  }
  return to;
}

Axes AxesOf(const Walk& walk) {
  Axes axes;
  axes.count = std::max(1, static_cast<int>(walk.dims.size()));
  std::copy(walk.dims.begin(), walk.dims.end(), axes.dims);
  std::copy(walk.a.begin(), walk.a.end(), axes.a);
  std::copy(walk.b.begin(), walk.b.end(), axes.b);
  std::copy(walk.y.begin(), walk.y.end(), axes.y);
  axes.total = Elements(walk);
  return axes;
}

// Calls work(axes, a, b, y) for walks of at most kAxesMax axes; outer axes are looped over here.
template <class Work>
void Within(const Walk& walk, ConstTensor a, ConstTensor b, Tensor y, const Work& work) {
  if (walk.dims.size() <= kAxesMax) return work(AxesOf(walk), a, b, y);
  const Walk inner{{walk.dims.begin() + 1, walk.dims.end()},
                   {walk.a.begin() + 1, walk.a.end()},
                   {walk.b.begin() + 1, walk.b.end()},
                   {walk.y.begin() + 1, walk.y.end()}};
  for (int64_t i = 0; i < walk.dims[0]; ++i) {
    Within(inner, a + i * walk.a[0], b + i * walk.b[0], y + i * walk.y[0], work);
  }
}

// True if y is exactly a with the last two axes swapped. The axes are in y's order.
bool Transposes(const Axes& y) {
  if (y.count < 2) return false;
  const int last = y.count - 1, before = last - 1;
  const int64_t rows = y.dims[last], columns = y.dims[before];
  int64_t each = rows * columns;
  bool whole = y.a[last] == columns && y.a[before] == 1 && y.y[last] == 1 && y.y[before] == rows;
  for (int axis = before; axis-- > 0; each *= y.dims[axis]) {
    whole = whole && y.a[axis] == each && y.y[axis] == each;
  }
  return whole;
}

// Sums over the inner walk for each element of the outer walk, with one rounding at the end.
void SumWalk(Engine& engine, const Walk& outer, const Walk& inner, bool across, ConstTensor a,
             Tensor y) {
  if (inner.dims.size() <= kAxesMax) {
    const Axes each = AxesOf(inner);
    return Within(outer, a, {}, y,
                  [&](const Axes& axes, const ConstTensor& pa, const ConstTensor&, Tensor py) {
                    engine.Reduce("sum along a walk", axes.total, each.total, across,
                                  SumWalkBody{axes, each, pa, py});
                  });
  }
  // There are more axes than a kernel takes: the elements are first copied side by side.
  const int64_t outputs = Elements(outer), count = Elements(inner);
  float* const beside = engine.Work<float>(Scratch::kMore, outputs * count);
  if (beside == nullptr) return;
  Walk all = outer, sums = outer;
  int64_t step = outputs * count;
  for (size_t axis = 0; axis < outer.dims.size(); ++axis) {
    step /= outer.dims[axis];
    all.y[axis] = sums.a[axis] = step;
  }
  for (size_t axis = 0; axis < inner.dims.size(); ++axis) {
    step /= inner.dims[axis];
    all.dims.push_back(inner.dims[axis]);
    all.a.push_back(inner.a[axis]);
    all.b.push_back(0);
    all.y.push_back(step);
  }
  CopyWalk(engine, all, false, a, beside);
  SumWalk(engine, sums, {{count}, {1}, {0}, {0}}, false, beside, y);
}

}  // namespace

void CopyWalk(Engine& engine, const Walk& walk, bool add, ConstTensor a, Tensor y) {
  if (Elements(walk) == 0) return;
  const Walk outer = Joined(walk, [&](int64_t step) { return !add || step != 0; });
  const Walk inner = Joined(walk, [&](int64_t step) { return add && step == 0; });
  if (!inner.dims.empty()) {
    // Neighbouring threads should read neighbouring numbers.
    const bool across = !outer.dims.empty() && std::abs(outer.a.back()) < std::abs(inner.a.back());
    return SumWalk(engine, outer, inner, across, a, y);
  }
  Within(outer, a, {}, y,
         [&](const Axes& axes, const ConstTensor& pa, const ConstTensor&, Tensor py) {
           if (!add && Transposes(axes)) {
             const int64_t rows = axes.dims[axes.count - 1], columns = axes.dims[axes.count - 2];
             return Transpose(engine, axes.total / (rows * columns), rows, columns, pa, py);
           }
           engine.Map("copy", axes.Threads(), CopyWalkBody{axes, add, pa, py});
         });
}

void Transpose(Engine& engine, int64_t matrices, int64_t rows, int64_t columns, ConstTensor a,
               Tensor y) {
  const TransposeBody body{rows, columns, a, y};
  engine.Map("transpose", body.Threads(matrices), body);
}

void BinaryWalk(Engine& engine, BinaryKind kind, const Walk& walk, ConstTensor a, ConstTensor b,
                Tensor y) {
  const char* const what = "binary operation";
  if (Elements(walk) == 0) return;
  Within(Joined(walk, [](int64_t) { return true; }), a, b, y,
         [&](const Axes& axes, const ConstTensor& pa, const ConstTensor& pb, Tensor py) {
           if (axes.count == 1 && axes.a[0] == 1 && axes.b[0] == 1 && axes.y[0] == 1) {
             return engine.Map(what, axes.total, FlatBinaryBody{kind, pa, pb, py});
           }
           engine.Map(what, axes.Threads(), BinaryBody{kind, axes, pa, pb, py});
         });
}

void ScatterAdd(Engine& engine, int64_t count, int64_t width, int64_t rows, const float* ids,
                const float* dy, float* dtable) {
  engine.Map("fill", rows * width, FillBody{0, dtable});
  auto* from = engine.Work<int64_t>(Scratch::kKeys, count);
  auto* to = engine.Work<int64_t>(Scratch::kKeysToo, count);
  if (from == nullptr || to == nullptr || count == 0) return;
  engine.Map("scatter", count, ScatterKeyBody{count, rows, ids, from});
  for (int64_t run = 1; run < count; run *= 2) {
    engine.Map("scatter", count, MergeRunsBody{count, run, from, to});
    std::swap(from, to);
  }
  engine.Map("scatter", count * width, ScatterSumBody{count, width, rows, from, dy, dtable});
}

}  // namespace paracord::cuda
