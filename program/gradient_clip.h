// Clips gradients by norm in a worker, because a norm needs whole gradients, which no ps has:
// gradients are pushed in partitions. In synchronous training the worker does not clip: the ps clip
// the mean gradient of a round by norm (store/partition_rounds.h). Only the ps clip by value.
#pragma once

#include "config/job.h"
#include "config/norm_clip.h"
#include "program/gradient_program.h"

namespace paracord {

struct GradientClip : NormClip {
  // Indexed by variable; true: the gradient is not clipped. Missing elements count as false.
  std::vector<bool> exempt;

  void Apply(MutableTensors gradients) const;
};

// Reads the optimizer's options of clipping by norm (ReadNormClip). The moving averages among
// `variables` are exempt, because observations are pushed for them, not gradients.
GradientClip ReadGradientClip(const NamedSpec& optimizer,
                              std::span<const VariableSpec> variables = {});

}  // namespace paracord
