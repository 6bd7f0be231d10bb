// Layers inside the config of another layer, {"class_name", "config"}, as wrappers have them.
// Mistakes are recorded in the wrapper's config. Pure.
#pragma once

#include <memory>
#include <string>

#include "keras/layers/layers.h"

namespace paracord {

// The name in the config of a layer, or "layer".
std::string NameIn(const nlohmann::json& spec);

// The layer under `key`, or an object without a class if there is none (a mistake).
nlohmann::json SpecOf(LayerConfig& config, const char* key);

// In Keras 2 a frozen wrapper freezes the layer inside; in Keras 3 that layer's own config decides.
inline bool FreezesWithin(const LayerConfig& outer) { return outer.keras2() && !outer.trainable(); }

// Makes the layer that `spec` describes. Null means that `outer` has the error.
std::unique_ptr<Layer> MakeInner(LayerConfig& outer, const char* key, const std::string& name,
                                 const nlohmann::json& spec);

}  // namespace paracord
