// Clipping of gradients by their norm, as the optimizer of a job says: Keras' clip_by_norm of each
// variable for `clipnorm`, clip_by_global_norm over all of them for `global_clipnorm`. Pure.
#pragma once

#include "config/job.h"

namespace paracord {

struct NormClip {
  double clipnorm = 0;         // 0: off
  double global_clipnorm = 0;  // 0: off

  bool on() const { return clipnorm > 0 || global_clipnorm > 0; }
};

// Reads the optimizer's options, which the ps checks: an option that is absent, null or of another
// type is off.
NormClip ReadNormClip(const NamedSpec& optimizer);

// Returns the factor that clips values with this sum of squares to a norm of `clip`: clip / norm
// where the norm is greater, else 1; NaN where the sum is NaN.
float ClipFactor(double clip, double squares);

}  // namespace paracord
