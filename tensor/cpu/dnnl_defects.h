// What oneDNN 2.6 (Debian 12) and 3.7 (Debian 13) compute wrongly, so that something else is asked
// for it. Found by random shapes beside plain sums (tests/steady/library_sums_test.cc). Private to
// the CPU's operations.
#pragma once

#include <string_view>

#include "tensor/ops.h"

namespace paracord::cpu {

// Whether the implementation of that name is wrong, or goes beyond its memory, in the convolution
// or one of its gradients.
bool IsWrong(std::string_view implementation, const ConvShape& s);

// Whether what is computed of bfloat16 by AMX is.
bool IsWrongByAmx(const ConvShape& s);
bool IsWrongByAmx(const MatmulShape& s);

}  // namespace paracord::cpu
