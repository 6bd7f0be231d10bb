// The parts of losses that are computed output by output, for every device: pure functions for the
// loss of an output and its slope. Formulas follow keras/src/losses and
// keras/src/backend/tensorflow/nn.py, including the clipping by Keras' epsilon.
#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/host_device.h"
#include "tensor/ops.h"

namespace paracord::formulas {

// Used as a value only, written +kEpsilon where a function takes a reference: device code of CUDA
// knows a constant's value but not its address.
constexpr float kEpsilon = 1e-7f;

// A row's target that is a class index, read as a number for each class: 1 for `label`, else 0.
struct SparseTarget {
  int64_t label;
  PARACORD_HD float operator[](int64_t c) const { return c == label ? 1.f : 0.f; }
};

// A row's targets with a number for each class, after label smoothing.
struct SmoothTarget {
  const float* t;
  float keep, add;
  PARACORD_HD float operator[](int64_t c) const { return t[c] * keep + add; }
};

// The loss of an output y with target t, and the derivative of this loss with respect to y. Each
// kind of loss has At(y, t, shape).
struct Point {
  float loss, slope;
};

PARACORD_HD inline float ClipProbability(float p) {
  return std::min(std::max(p, +kEpsilon), 1.f - kEpsilon);
}

// The crossentropy of probabilities with a class-index target. Clipping and dividing are in
// TensorFlow's order: with class indices TensorFlow clips the outputs and then divides them by
// their sum; with a number for each class it first divides and then clips.
struct SparseOfProbability {
  // `sum` is the sum of the row's clipped outputs. The row's loss is the sum of At over the row's
  // classes.
  PARACORD_HD static Point At(float p, float t, float sum) {
    const float c = ClipProbability(p), share = c / sum;
    return {t == 0 ? 0.f : -t * std::log(share), p == c ? (share - t) / c : 0.f};
  }
};

struct BinaryOfLogit {
  PARACORD_HD static Point At(float x, float t, const LossShape& s) {
    t = t * (1 - s.label_smoothing) + 0.5f * s.label_smoothing;
    const float log_part = std::log1p(std::exp(-std::abs(x)));
    return {std::max(x, 0.f) - x * t + log_part, 1.f / (1.f + std::exp(-x)) - t};
  }
};

struct BinaryOfProbability {
  PARACORD_HD static Point At(float p, float t, const LossShape& s) {
    t = t * (1 - s.label_smoothing) + 0.5f * s.label_smoothing;
    const float c = ClipProbability(p);
    const float yes = c + s.log_offset, no = 1.f - c + s.log_offset;
    const float loss = -(t * std::log(yes) + (1.f - t) * std::log(no));
    return {loss, p == c ? (1.f - t) / no - t / yes : 0.f};
  }
};

PARACORD_HD inline float SignOf(float d) {
  return d > 0 ? 1.f : (d < 0 ? -1.f : d);
}  // this form keeps a NaN

struct Squared {
  PARACORD_HD static Point At(float y, float t, const LossShape&) {
    return {(y - t) * (y - t), 2.f * (y - t)};
  }
};

struct Absolute {
  PARACORD_HD static Point At(float y, float t, const LossShape&) {
    return {std::abs(y - t), SignOf(y - t)};
  }
};

struct SquaredLogarithmic {
  PARACORD_HD static Point At(float y, float t, const LossShape&) {
    const float d = std::log(std::max(y, +kEpsilon) + 1.f) - std::log(std::max(t, +kEpsilon) + 1.f);
    return {d * d, y >= kEpsilon ? 2.f * d / (y + 1.f) : 0.f};
  }
};

struct Percentage {
  PARACORD_HD static Point At(float y, float t, const LossShape&) {
    const float size = std::max(std::abs(t), +kEpsilon);
    return {100.f * std::abs((t - y) / size), 100.f * SignOf(y - t) / size};
  }
};

struct Huber {
  PARACORD_HD static Point At(float y, float t, const LossShape& s) {
    const float d = y - t, size = std::abs(d);
    if (size <= s.delta) return {0.5f * d * d, d};
    return {s.delta * size - 0.5f * s.delta * s.delta, s.delta * SignOf(d)};
  }
};

struct LogCosh {
  PARACORD_HD static Point At(float y, float t, const LossShape&) {
    const float d = y - t, size = std::abs(d);
    return {size + std::log1p(std::exp(-2.f * size)) - 0.69314718056f, std::tanh(d)};
  }
};

struct Hinge {
  PARACORD_HD static Point At(float y, float t, const LossShape&) {
    const float v = 1.f - t * y;
    return {std::max(v, 0.f), v > 0 ? -t : 0.f};
  }
};

struct SquaredHinge {
  PARACORD_HD static Point At(float y, float t, const LossShape&) {
    const float v = std::max(1.f - t * y, 0.f);
    return {v * v, -2.f * v * t};
  }
};

struct Poisson {
  PARACORD_HD static Point At(float y, float t, const LossShape&) {
    return {y - t * std::log(y + kEpsilon), 1.f - t / (y + kEpsilon)};
  }
};

// A binary crossentropy, multiplied by a power of 1 - the probability of the right answer.
struct BinaryFocal {
  // `p` is the output's probability, `d_p` its derivative with respect to the output, and `cross`
  // the output's crossentropy.
  PARACORD_HD static Point Weigh(Point cross, float p, float d_p, float t, const LossShape& s) {
    t = t * (1 - s.label_smoothing) + 0.5f * s.label_smoothing;
    const float far = 1.f - (t * p + (1.f - t) * (1.f - p));
    const float factor = std::pow(far, s.gamma);
    const float d_factor = s.gamma == 0 ? 0.f : s.gamma * std::pow(far, s.gamma - 1.f);
    const float weight = s.balanced ? t * s.alpha + (1.f - t) * (1.f - s.alpha) : 1.f;
    const float d_far = (1.f - 2.f * t) * d_p;
    return {weight * factor * cross.loss,
            weight * (factor * cross.slope + d_factor * d_far * cross.loss)};
  }
};

struct BinaryFocalOfLogit {
  PARACORD_HD static Point At(float x, float t, const LossShape& s) {
    const float p = 1.f / (1.f + std::exp(-x));
    return BinaryFocal::Weigh(BinaryOfLogit::At(x, t, s), p, p * (1.f - p), t, s);
  }
};

struct BinaryFocalOfProbability {
  PARACORD_HD static Point At(float p, float t, const LossShape& s) {
    return BinaryFocal::Weigh(BinaryOfProbability::At(p, t, s), p, 1, t, s);
  }
};

// The part of one class in a categorical focal crossentropy, from the class' share of the sum of
// the row's probabilities.
struct FocalOfShare {
  PARACORD_HD static Point At(float share, float t, const LossShape& s) {
    const float c = ClipProbability(share);
    const float cross = -t * std::log(c), factor = s.alpha * std::pow(1.f - c, s.gamma);
    const float d_factor = -s.alpha * s.gamma * std::pow(1.f - c, s.gamma - 1.f);
    return {factor * cross, share == c ? d_factor * cross - factor * t / c : 0.f};
  }
};

}  // namespace paracord::formulas
