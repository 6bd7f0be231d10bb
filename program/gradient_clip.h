// Clipping by norm. The worker clips, because the norm needs a whole gradient, before partitioning.
// (The ps clips by value and, in synchronous training, clips the round's mean by norm:
// store/partition_rounds.h.)
#pragma once

#include "config/job.h"
#include "config/norm_clip.h"
#include "program/gradient_program.h"

namespace paracord {

struct GradientClip : NormClip {
  std::vector<bool> exempt;  // indexed by variable; a moving average receives no gradient

  void Apply(MutableTensors gradients) const;
};

// Reads the optimizer's options (ReadNormClip). Moving averages among the variables are not
// clipped.
GradientClip ReadGradientClip(const NamedSpec& optimizer,
                              std::span<const VariableSpec> variables = {});

}  // namespace paracord
