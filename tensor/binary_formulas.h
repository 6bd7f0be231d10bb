// Pure functions for the kinds of BinaryKind (ops.h) that no single operator of C++ computes, for
// every device.
#pragma once

#include <cmath>

#include "tensor/host_device.h"

namespace paracord::formulas {

// The remainder of a division whose quotient is rounded down, as in Python.
PARACORD_HD inline float ModuloOf(float a, float b) {
  const float rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace paracord::formulas
