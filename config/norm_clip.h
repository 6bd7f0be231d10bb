// Clipping of gradients by their norm, as a job's optimizer says: with `clipnorm` each variable's,
// as Keras' clip_by_norm; with `global_clipnorm` all together, as clip_by_global_norm. Pure.
#pragma once

#include "config/job.h"

namespace paracord {

struct NormClip {
  double clipnorm = 0;         // 0: off
  double global_clipnorm = 0;  // 0: off

  bool on() const { return clipnorm > 0 || global_clipnorm > 0; }
};

// Reads the optimizer's options. An option that is absent, null or no number is read as off: wrong
// options are refused elsewhere.
NormClip ReadNormClip(const NamedSpec& optimizer);

// Returns the factor that clips values to a norm of `clip`, where `squares` is the sum of the
// squares of the values: clip / norm if the norm is greater than `clip`, else 1. NaN for a NaN.
float ClipFactor(double clip, double squares);

}  // namespace paracord
