// Keras' constraints of a norm (keras/src/constraints/constraints.py: MaxNorm, UnitNorm,
// MinMaxNorm), applied to the values of a partition after each update. Free of locks; the caller
// holds the partition's.
#pragma once

#include <cstdint>
#include <span>

#include "proto/paracord.pb.h"

namespace paracord {

// `chunks` are the values in order, row-major, of `shape`. Sums are taken in double.
void ScaleToNorm(const NormConstraint& norm, std::span<const uint64_t> shape,
                 std::span<const std::span<float>> chunks);

}  // namespace paracord
