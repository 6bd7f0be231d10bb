// What the job's `precision` makes of a model. Pure.
#pragma once

#include <string>

#include "keras/json.h"

namespace paracord {

// "bf16", "fp16": layers that the file has in float32 get Keras' policy mixed_bfloat16 or
// mixed_float16, but for those that give an output of the model, where it matters most. Layers with
// a policy of their own keep it. "tf32": all products may take 11 bits of their operands. What lies
// between products is float32 whatever the precision, so that no loss has to be scaled.
void ApplyPrecision(const std::string& precision, ModelSpec& model);

}  // namespace paracord
