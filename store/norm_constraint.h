// Keras' constraints of a norm (keras/src/constraints/constraints.py: MaxNorm, UnitNorm,
// MinMaxNorm). They are applied after each update, to the values of a dense partition or to each
// updated row of a table. No function here locks; the caller holds the partition's lock.
#pragma once

#include <cstdint>
#include <span>

#include "proto/paracord.pb.h"

namespace paracord {

// Scales values to the norms that `norm` allows. `chunks` have the values of a tensor of `shape`,
// row-major, one chunk after another. Sums are computed in double.
void ScaleToNorm(const NormConstraint& norm, std::span<const uint64_t> shape,
                 std::span<const std::span<float>> chunks);

}  // namespace paracord
