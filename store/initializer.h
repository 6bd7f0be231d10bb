// Initial values, by Keras' names, defaults and formulas (keras/src/initializers). Each element is
// a pure function of (seed, name of the variable, its index in the variable), so partitions and ps
// do not matter; the random sequence itself is ours (common/counter_random.h), not Keras'.
// Stateless.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Writes elements [begin, begin + out.size()) of the variable, row-major. Options are numbers, so
// variance_scaling's "mode" is 0 fan_in, 1 fan_out, 2 fan_avg and its "distribution" is
// 0 truncated_normal, 1 untruncated_normal, 2 uniform; what scales by fans takes "fan_in" and
// "fan_out" where they are not those of a convolution's kernel. INVALID_ARGUMENT names the variable
// and what its initializer lacks. Option "unit_forget" (not 0) of any: the second quarter is ones,
// which is an LSTM's bias with unit_forget_bias. What may give a number beyond float32 is refused.
absl::Status Initialize(const VariableSpec& variable, uint64_t seed, uint64_t begin,
                        std::span<float> out);

// What Initialize would refuse, without a number drawn.
absl::Status CheckInitializer(const VariableSpec& variable);

}  // namespace paracord
