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

// Reads the optimizer's options. An option that is absent, null or no number means off: only the ps
// refuses wrong ones.
NormClip ReadNormClip(const NamedSpec& optimizer);

// Returns the factor that clips values to a norm of `clip`. `squares` is the sum of the squares of
// the values. The factor is clip / norm if the norm is greater than `clip`, else 1; NaN for a NaN.
float ClipFactor(double clip, double squares);

}  // namespace paracord
