// Knows the shapes for which oneDNN 2.6 (Debian 12) or 3.7 (Debian 13) computes wrong results; the
// caller then chooses another implementation. The shapes were found by comparing results for random
// shapes with plain sums (tests/steady/library_sums_test.cc). Private to tensor/cpu.
#pragma once

#include <string_view>

#include "tensor/ops.h"

namespace paracord::cpu {

// True if oneDNN's implementation of this name gives wrong results, or accesses memory out of
// bounds, for the convolution or one of its gradients.
bool IsWrong(std::string_view implementation, const ConvShape& s);

// True if oneDNN computes the shape wrongly in bfloat16, with the processor's AMX instructions.
bool IsWrongByAmx(const ConvShape& s);
bool IsWrongByAmx(const MatmulShape& s);

}  // namespace paracord::cpu
