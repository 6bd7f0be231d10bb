// Operations along a walk: walks of few axes become one launch.
#include "worker/ops/cuda/walk.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/ops/cuda/elementwise.h"
#include "worker/ops/cuda/engine.h"

namespace paracord::cuda {
namespace {

void AddAxis(const Walk& walk, size_t axis, Axes& to) {
  const int at = to.count++;
  to.dims[at] = walk.dims[axis];
  to.a[at] = walk.a[axis];
  to.b[at] = walk.b.empty() ? 0 : walk.b[axis];
  to.y[at] = walk.y[axis];
  to.total *= walk.dims[axis];
}

// Calls work(walk, a, b, y) for walks of at most kAxesMax axes: outer ones are walked here.
template <class Work>
void Within(const Walk& walk, const float* a, const float* b, float* y, const Work& work) {
  if (walk.dims.size() <= kAxesMax) return work(walk, a, b, y);
  Walk inner{{walk.dims.begin() + 1, walk.dims.end()},
             {walk.a.begin() + 1, walk.a.end()},
             {},
             {walk.y.begin() + 1, walk.y.end()}};
  if (!walk.b.empty()) inner.b.assign(walk.b.begin() + 1, walk.b.end());
  for (int64_t i = 0; i < walk.dims[0]; ++i) {
    Within(inner, a + i * walk.a[0], walk.b.empty() ? b : b + i * walk.b[0], y + i * walk.y[0],
           work);
  }
}

// Whether y is a with its last two axes changed for each other, and nothing else; y's are the last.
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

void CopyFew(Engine& engine, const Walk& walk, bool add, const float* a, float* y) {
  Axes outer, inner;  // inner: along which y stands still
  for (size_t axis = 0; axis < walk.dims.size(); ++axis) {
    AddAxis(walk, axis, add && walk.y[axis] == 0 ? inner : outer);
  }
  if (outer.total * inner.total == 0) return;
  if (!add && Transposes(outer)) {
    const int64_t rows = outer.dims[outer.count - 1], columns = outer.dims[outer.count - 2];
    return Transpose(engine, outer.total / (rows * columns), rows, columns, ConstTensor(a), y);
  }
  if (inner.total == 1) return engine.Map("copy", outer.total, CopyWalkBody{outer, add, a, y});
  // Neighbouring threads read neighbouring numbers.
  const bool across = walk.y.back() != 0;
  engine.Reduce("sum along a walk", outer.total, inner.total, across,
                SumWalkBody{outer, inner, a, y});
}

}  // namespace

void CopyWalk(Engine& engine, const Walk& walk, bool add, const float* a, float* y) {
  Within(walk, a, nullptr, y, [&](const Walk& few, const float* pa, const float*, float* py) {
    CopyFew(engine, few, add, pa, py);
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
  if (walk.dims.size() == 1 && walk.a[0] == 1 && walk.b[0] == 1 && walk.y[0] == 1) {
    return engine.Map(what, walk.dims[0], FlatBinaryBody{kind, a, b, y});
  }
  Within(walk, a, b, y, [&](const Walk& few, const float* pa, const float* pb, float* py) {
    Axes axes;
    for (size_t axis = 0; axis < few.dims.size(); ++axis) AddAxis(few, axis, axes);
    engine.Map(what, axes.total, BinaryBody{kind, axes, pa, pb, py});
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
