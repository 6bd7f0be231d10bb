#include "config/norm_clip.h"

#include <cmath>

namespace paracord {
namespace {

double Option(const NamedSpec& optimizer, const char* name) {
  const auto it = optimizer.options.find(name);
  return it != optimizer.options.end() && it->is_number() ? it->get<double>() : 0;
}

}  // namespace

NormClip ReadNormClip(const NamedSpec& optimizer) {
  return {Option(optimizer, "clipnorm"), Option(optimizer, "global_clipnorm")};
}

float ClipFactor(double clip, double squares) {
  const double norm = std::sqrt(squares);
  return norm <= clip ? 1 : static_cast<float>(clip / norm);
}

}  // namespace paracord
