// Clips gradients by norm, in a worker: the norm needs whole gradients, before they are cut into
// partitions. The ps clip by value, and in synchronous training the ps clip the mean of a round by
// norm (store/partition_rounds.h), and the worker does not clip.
#pragma once

#include "config/job.h"
#include "config/norm_clip.h"
#include "program/gradient_program.h"

namespace paracord {

struct GradientClip : NormClip {
  // Indexed by variable; true: not clipped. Missing elements count as false.
  std::vector<bool> exempt;

  void Apply(MutableTensors gradients) const;
};

// Reads the optimizer's options (ReadNormClip). Moving averages are exempt, because they are pushed
// as observations and not as gradients.
GradientClip ReadGradientClip(const NamedSpec& optimizer,
                              std::span<const VariableSpec> variables = {});

}  // namespace paracord
