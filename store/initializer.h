// Initial values, by Keras' names, defaults and formulas (keras/src/initializers). Each element is
// a function of seed, variable and index in the variable, however the variable is cut. The random
// sequence is ours (common/counter_random.h), not Keras'. No function here has state.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Writes elements [begin, begin + out.size()) of the variable, row-major. An initializer's options
// are numbers: variance_scaling's "mode" is 0 fan_in, 1 fan_out, 2 fan_avg, its "distribution" 0
// truncated_normal, 1 untruncated_normal, 2 uniform. Initializers scaled by fans take the options
// "fan_in" and "fan_out", where given, instead of the fans of a convolution kernel of the
// variable's shape. Any initializer takes "unit_forget"; if it is not 0, the second quarter of the
// elements is 1: an LSTM's bias with unit_forget_bias. INVALID_ARGUMENT names the variable: its
// initializer is not known, has a wrong option, does not fit the shape, or may give a number beyond
// float32.
absl::Status Initialize(const VariableSpec& variable, uint64_t seed, uint64_t begin,
                        std::span<float> out);

// Writes the first values of the row of any 64-bit id of a growing table. Thread-safe.
using RowInitializer = std::function<void(uint64_t id, std::span<float> row)>;
// INVALID_ARGUMENT as Initialize, and for identity, orthogonal and unit_forget, which need all
// rows.
absl::StatusOr<RowInitializer> MakeRowInitializer(const VariableSpec& variable, uint64_t seed);

// Returns the error that Initialize would return, without drawing a number.
absl::Status CheckInitializer(const VariableSpec& variable);

}  // namespace paracord
