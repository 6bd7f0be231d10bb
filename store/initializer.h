// Initial values, by Keras' names, defaults and formulas (keras/src/initializers). Each element
// depends only on the seed, the variable's name and shape, and the element's index in the variable
// (in a growing table, the row's id and the index in the row). The random sequence is ours
// (common/counter_random.h), not Keras'. No function here has state.
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
// truncated_normal, 1 untruncated_normal, 2 uniform. Initializers whose scale depends on fans take
// the options "fan_in" and "fan_out"; a fan that is not given follows from the variable's shape, as
// Keras computes it. If the option "unit_forget" is not 0, the second quarter of the elements is 1,
// as in an LSTM's bias with unit_forget_bias; orthogonal ignores this option. INVALID_ARGUMENT
// names the variable: its initializer is not known, has a wrong option, does not fit the shape, or
// may give a number beyond float32.
absl::Status Initialize(const VariableSpec& variable, uint64_t seed, uint64_t begin,
                        std::span<float> out);

// Writes the initial values of the row of any 64-bit id of a growing table. Thread-safe.
using RowInitializer = std::function<void(uint64_t id, std::span<float> row)>;
// INVALID_ARGUMENT as Initialize, and also for identity, orthogonal and unit_forget, which need to
// know all rows.
absl::StatusOr<RowInitializer> MakeRowInitializer(const VariableSpec& variable, uint64_t seed);

// Returns the error that Initialize, or for a growing table MakeRowInitializer, would return.
absl::Status CheckInitializer(const VariableSpec& variable);

}  // namespace paracord
