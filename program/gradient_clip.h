// Clipping by norm, which needs a gradient whole and so happens on the worker, before it is cut
// into partitions. (Clipping by value happens on the ps.) Keras' formulas: clip_by_norm of each
// variable for `clipnorm`, clip_by_global_norm over all of them for `global_clipnorm`.
#pragma once

#include "config/job.h"
#include "program/gradient_program.h"

namespace paracord {

struct GradientClip {
  double clipnorm = 0;         // 0: off
  double global_clipnorm = 0;  // 0: off
  std::vector<bool> exempt;    // of each variable: a moving average is given no gradient

  bool on() const { return clipnorm > 0 || global_clipnorm > 0; }
  void Apply(MutableTensors gradients) const;
};

// Reads the optimizer's options, which the ps checks: an option that is absent, null or of another
// type is off. Moving averages among the variables are not clipped.
GradientClip ReadGradientClip(const NamedSpec& optimizer,
                              std::span<const VariableSpec> variables = {});

}  // namespace paracord
