// Initial values, by Keras' names, defaults and formulas (keras/src/initializers). Each element is
// a pure function of (seed, name of the variable, its index in the variable), so partitions and ps
// do not matter; the random sequence itself is ours (common/counter_random.h), not Keras'.
// Stateless.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Writes elements [begin, begin + out.size()) of the variable, row-major. Options are numbers:
// variance_scaling's "mode" is 0 fan_in, 1 fan_out, 2 fan_avg, its "distribution" 0
// truncated_normal, 1 untruncated_normal, 2 uniform. Initializers scaled by fans take "fan_in" and
// "fan_out", where given, instead of a convolution kernel's fans. Any initializer takes
// "unit_forget" (not 0), which sets the second quarter to 1: an LSTM's bias with unit_forget_bias.
// INVALID_ARGUMENT names the variable and what its initializer lacks; an initializer that may give
// a number beyond float32 is refused.
absl::Status Initialize(const VariableSpec& variable, uint64_t seed, uint64_t begin,
                        std::span<float> out);

// Writes the first values of the row of any 64-bit id of a table without a size. Thread-safe.
using RowInitializer = std::function<void(uint64_t id, std::span<float> row)>;
// INVALID_ARGUMENT as Initialize, and for identity and orthogonal, which need all rows.
absl::StatusOr<RowInitializer> MakeRowInitializer(const VariableSpec& variable, uint64_t seed);

// Returns the error that Initialize would return, without drawing a number.
absl::Status CheckInitializer(const VariableSpec& variable);

}  // namespace paracord
