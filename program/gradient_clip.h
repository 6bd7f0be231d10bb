// Clipping by norm, which needs a gradient whole and so happens on the worker, before it is cut
// into partitions. (Clipping by value happens on the ps, and so does clipping by norm in
// synchronous training, which is of a round's mean: store/partition_rounds.h.)
#pragma once

#include "config/job.h"
#include "config/norm_clip.h"
#include "program/gradient_program.h"

namespace paracord {

struct GradientClip : NormClip {
  std::vector<bool> exempt;  // of each variable: a moving average is given no gradient

  void Apply(MutableTensors gradients) const;
};

// Reads the optimizer's options (ReadNormClip). Moving averages among the variables are not
// clipped.
GradientClip ReadGradientClip(const NamedSpec& optimizer,
                              std::span<const VariableSpec> variables = {});

}  // namespace paracord
