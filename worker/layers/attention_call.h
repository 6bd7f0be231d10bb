// What a call of an attention layer may say beside its tensors, of all of Keras' attention layers.
#pragma once

#include "worker/layers/layer_config.h"

namespace paracord {

inline void ReadAttentionCall(LayerConfig& config, bool& causal, bool& return_scores) {
  for (const auto& [key, value] : config.kwargs().items()) {
    if (key == "use_causal_mask" && value.is_boolean()) {
      causal = value.get<bool>();
    } else if (key == "return_attention_scores" && value.is_boolean()) {
      return_scores = value.get<bool>();
    } else if (!value.is_null()) {
      config.Fail(key, "is not supported as an argument of its call");
    }
  }
}

}  // namespace paracord
