// Reads the arguments other than tensors that calls of all Keras attention layers have. An argument
// `use_causal_mask` that is absent or false leaves `causal` unchanged.
#pragma once

#include "keras/layers/layer_config.h"

namespace paracord {

inline void ReadAttentionCall(LayerConfig& config, bool& causal, bool& return_scores) {
  causal = config.CallFlag("use_causal_mask") || causal;
  return_scores = config.CallFlag("return_attention_scores");
}

}  // namespace paracord
