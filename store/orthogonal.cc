#include "store/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/counter_random.h"

namespace paracord {
namespace {

// Q = H_0 H_1 ... H_(narrow-1) D. H_k reflects a normal vector of the coordinates from k on onto
// axis k; D has the signs that make the triangle of the QR positive. `tall` is the number of
// coordinates; the matrix is the first `narrow` columns of Q.
struct Reflection {
  std::vector<double> v;  // coordinates from k on, of length sqrt(2)
  double sign = 1;
};

Reflection ReflectionOf(uint64_t key, uint64_t tall, uint64_t k) {
  Reflection r;
  r.v.resize(tall - k);
  double norm = 0;
  for (uint64_t i = k; i < tall; ++i) {
    const double x = RandomNormal(key, k * tall + i);
    r.v[i - k] = x;
    norm += x * x;
  }
  norm = std::sqrt(norm);
  r.sign = r.v[0] >= 0 ? -1 : 1;
  r.v[0] -= r.sign * norm;  // away from the axis: no cancellation
  double length = 0;
  for (const double x : r.v) length += x * x;
  for (double& x : r.v) x *= std::sqrt(2 / length);
  return r;
}

// Computes x -= v (v x), with four independent sums.
void Reflect(const std::vector<double>& v, double* x) {
  double sums[4] = {};
  const size_t n = v.size(), whole = n / 4 * 4;
  for (size_t i = 0; i < whole; i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += v[i + j] * x[i + j];
  }
  for (size_t i = whole; i < n; ++i) sums[0] += v[i] * x[i];
  const double dot = sums[0] + sums[1] + sums[2] + sums[3];
  for (size_t i = 0; i < n; ++i) x[i] -= dot * v[i];
}

}  // namespace

void Orthogonal(const MatrixShape& matrix, uint64_t key, double gain, uint64_t begin,
                std::span<float> out) {
  if (out.empty()) return;
  const uint64_t tall = std::max(matrix.rows, matrix.columns);
  const uint64_t narrow = std::min(matrix.rows, matrix.columns);
  const uint64_t first = begin / matrix.columns;
  const uint64_t count = (begin + out.size() - 1) / matrix.columns + 1 - first;
  // A row of a tall matrix is e' H_0 H_1 ...; a row of a wide matrix, which is a column of the tall
  // one, is H_0 ... H_(narrow-1) e, with the reflections applied from the last to the first.
  const bool wide = matrix.rows < matrix.columns;
  std::vector<double> rows(count * tall, 0), signs(narrow);
  for (uint64_t r = 0; r < count; ++r) rows[r * tall + first + r] = 1;
  for (uint64_t i = 0; i < narrow; ++i) {
    const uint64_t k = wide ? narrow - 1 - i : i;
    const Reflection reflection = ReflectionOf(key, tall, k);
    signs[k] = reflection.sign;
    for (uint64_t r = 0; r < count; ++r) {
      if (wide && first + r < k) continue;  // still zero from k on
      Reflect(reflection.v, rows.data() + r * tall + k);
    }
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t row = (begin + i) / matrix.columns, column = (begin + i) % matrix.columns;
    out[i] =
        static_cast<float>(gain * signs[wide ? row : column] * rows[(row - first) * tall + column]);
  }
}

}  // namespace paracord
