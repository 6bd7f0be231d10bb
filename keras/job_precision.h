// Applies the job's `precision` to a model. Pure.
#pragma once

#include <string>

#include "keras/json.h"

namespace paracord {

// With "bf16" or "fp16", gives float32 layers Keras' policy mixed_bfloat16 or mixed_float16, except
// layers with outputs of the model, where precision matters most; layers with a policy of their own
// keep it. With "tf32" all products may round their operands to 11 bits. Tensors between layers
// keep float32's range at any precision; no loss needs scaling.
void ApplyPrecision(const std::string& precision, ModelSpec& model);

}  // namespace paracord
