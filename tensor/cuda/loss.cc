// Operations whose result is a number on the host: losses and penalties.
#include "tensor/cuda/loss.h"

#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/engine.h"

namespace paracord::cuda {

void Loss(Engine& engine, const LossShape& s, const float* outputs, const float* targets,
          const float* weights, float scale, float* d_outputs, double* sum) {
  if (s.rows == 0) {
    *sum = 0;
    return;
  }
  auto* losses = engine.Work<double>(Scratch::kRows, s.rows);
  auto* result = engine.Result(sum);
  auto* more = engine.Work<float>(Scratch::kMore, s.rows);
  if (losses == nullptr || result == nullptr || more == nullptr) return;
  LossRows rows{s, outputs, targets, weights, nullptr, nullptr, scale};
  if (s.kind == LossKind::kHinge || s.kind == LossKind::kSquaredHinge) {
    engine.Reduce("loss", 1, s.rows * s.columns, false, BinaryTargetsBody{targets, more});
    rows.binary = more;
  } else if (s.kind == LossKind::kCategoricalFocalCrossentropy && s.from_logits) {
    engine.Reduce("loss", s.rows, s.columns, false, LogSumBody{rows, more});
    rows.sums = more;
  } else if ((OfClasses(s.kind) || s.kind == LossKind::kCategoricalFocalCrossentropy) &&
             !s.from_logits) {
    engine.Reduce("loss", s.rows, s.columns, false, ProbabilitySumBody{rows, more});
    rows.sums = more;
  }
  engine.Reduce("loss", s.rows, s.columns, false, LossBody{rows, losses, d_outputs});
  engine.Reduce("loss", 1, s.rows, false, SumBody{losses, result});
}

void Penalty(Engine& engine, int64_t n, float l1, float l2, const float* x, float scale, float* dx,
             double* sum) {
  if (sum != nullptr) {
    auto* result = engine.Result(sum);
    if (result == nullptr) return;
    engine.Reduce("penalty", 1, n, false, PenaltyBody{l1, l2, x, result});
  }
  if (dx != nullptr) engine.Map("penalty", n, PenaltyGradientBody{l1, l2, scale, x, dx});
}

}  // namespace paracord::cuda
