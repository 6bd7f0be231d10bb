// Layers inside the config of a wrapper layer, {"class_name": ..., "config": ...}. Mistakes are
// recorded in the wrapper's config. Keeps no state.
#pragma once

#include <memory>
#include <string>

#include "keras/layers/layers.h"

namespace paracord {

// Returns the name in the config of a layer, or "layer".
std::string NameIn(const nlohmann::json& spec);

// Returns the layer under `key`, or an object without a class if there is none (a mistake).
nlohmann::json SpecOf(LayerConfig& config, const char* key);

// A frozen wrapper freezes the inner layer in Keras 2; in Keras 3 the inner config decides.
inline bool FreezesWithin(const LayerConfig& outer) { return outer.keras2() && !outer.trainable(); }

// Makes the layer described by `spec`. Null: the mistake is recorded in `outer`.
std::unique_ptr<Layer> MakeInner(LayerConfig& outer, const char* key, const std::string& name,
                                 const nlohmann::json& spec);

}  // namespace paracord
