// The shapes for which oneDNN 2.6 (Debian 12) and 3.7 (Debian 13) compute wrong results; the caller
// then chooses another implementation. Found by comparing random shapes with plain sums
// (tests/steady/library_sums_test.cc). Private to the CPU's operations.
#pragma once

#include <string_view>

#include "tensor/ops.h"

namespace paracord::cpu {

// True if the named implementation gives wrong results, or accesses memory out of bounds, for the
// convolution or one of its gradients.
bool IsWrong(std::string_view implementation, const ConvShape& s);

// True if AMX computes the bfloat16 shape wrongly.
bool IsWrongByAmx(const ConvShape& s);
bool IsWrongByAmx(const MatmulShape& s);

}  // namespace paracord::cpu
