// Applies the job's `precision` to a model. Pure.
#pragma once

#include <string>

#include "keras/json.h"

namespace paracord {

// With "bf16" or "fp16", gives layers of Keras' dtype policy float32 the policy mixed_bfloat16 or
// mixed_float16: their products may round operands to 16 bits. Layers that compute an output of the
// model, where precision matters most, keep their policy. With "tf32" all products of float32
// layers may round operands to 11 significant bits. Tensors between layers keep float32's range at
// every precision, so that no loss has to be scaled.
void ApplyPrecision(const std::string& precision, ModelSpec& model);

}  // namespace paracord
