// Softmax under a mask, for attention layers. The formulas are those of
// keras/src/layers/activations/softmax.py, keras/src/backend/tensorflow/nn.py
// (dot_product_attention), and Keras 2's softmax.py.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tensor/cpu/cpu_ops_internal.h"

namespace paracord::cpu {
namespace {

constexpr float kMinusMuch = -1e9f;  // added by Keras 2 to a hidden score

// A row of scores. Keys from `count` on lie in the query's future.
struct ScoreRow {
  ScoreRow(const SoftmaxShape& s, const float* all_masks, int64_t batch, int64_t query)
      : mask(all_masks == nullptr ? nullptr : all_masks + (batch * s.queries + query) * s.keys),
        count(s.causal ? std::min(query + 1, s.keys) : s.keys) {}
  bool SeesAny() const {
    return mask == nullptr ? count > 0
                           : std::any_of(mask, mask + count, [](float m) { return m != 0; });
  }
  const float* mask;
  const int64_t count;
};

void SoftmaxRow(const SoftmaxShape& s, const ScoreRow& row, const float* x, float* y) {
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t k = 0; k < row.count; ++k) {
    if (row.mask == nullptr || row.mask[k] != 0) top = std::max(top, s.scale * x[k]);
  }
  ExpOfDifference(row.count, s.scale, x, top, y);
  for (int64_t k = 0; row.mask != nullptr && k < row.count; ++k) {
    if (row.mask[k] == 0) y[k] = 0;
  }
  const float sum = std::accumulate(y, y + row.count, 0.f);
  Affine(row.count, 1 / sum, 0, y, y);
  std::fill(y + row.count, y + s.keys, 0.f);
}

// Writes the row of a query without a visible key.
void BlindRow(const SoftmaxShape& s, const float* x, float* y) {
  switch (s.masked) {
    case MaskedScore::kZero:
      return std::fill(y, y + s.keys, 0.f);
    case MaskedScore::kReplaced:
      return std::fill(y, y + s.keys, 1.f / static_cast<float>(s.keys));
    case MaskedScore::kLowered:
      for (int64_t k = 0; k < s.keys; ++k) y[k] = s.scale * x[k] + kMinusMuch;
      return Activate({ActivationKind::kSoftmax}, 1, s.keys, y, y);
  }
}

template <class Work>
void ForEachRow(const SoftmaxShape& s, const float* mask, int64_t first, int64_t count,
                const Work& work) {
  int64_t at = first * s.heads * s.queries * s.keys;
  for (int64_t b = first; b < first + count; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t q = 0; q < s.queries; ++q, at += s.keys) work(ScoreRow(s, mask, b, q), at);
    }
  }
}

}  // namespace

void MaskedSoftmax(const SoftmaxShape& s, const float* mask, const float* x, float* y,
                   int64_t first, int64_t count) {
  ForEachRow(s, mask, first, count, [&](const ScoreRow& row, int64_t at) {
    row.SeesAny() ? SoftmaxRow(s, row, x + at, y + at) : BlindRow(s, x + at, y + at);
  });
}

// dx = scale y (dy - sum(dy y))
void MaskedSoftmaxBackward(const SoftmaxShape& s, const float* mask, const float* y,
                           const float* dy, float* dx, int64_t first, int64_t count) {
  ForEachRow(s, mask, first, count, [&](const ScoreRow& row, int64_t at) {
    const float *ry = y + at, *rdy = dy + at;
    float* rdx = dx + at;
    if (s.masked != MaskedScore::kLowered && !row.SeesAny()) {
      return std::fill(rdx, rdx + s.keys, 0.f);
    }
    float dot = 0;
    for (int64_t k = 0; k < s.keys; ++k) dot += rdy[k] * ry[k];
    for (int64_t k = 0; k < s.keys; ++k) rdx[k] = s.scale * ry[k] * (rdy[k] - dot);
  });
}

}  // namespace paracord::cpu
