// Reads a layer inside the config of a wrapper layer, {"class_name": ..., "config": ...}. Mistakes
// are recorded in the LayerConfig of the wrapper. Keeps no state.
#pragma once

#include <memory>
#include <string>

#include "keras/layers/layers.h"

namespace paracord {

// Returns the key "name" in the config of the inner layer `spec`, or "layer" if there is none.
std::string NameIn(const nlohmann::json& spec);

// Returns the inner layer under `key`; without one (a mistake), an object with an empty "config".
nlohmann::json SpecOf(LayerConfig& config, const char* key);

// Whether the wrapper freezes its inner layer: in Keras 2 a wrapper that is not trainable does; in
// Keras 3 the inner layer's own config decides.
inline bool FreezesWithin(const LayerConfig& outer) { return outer.keras2() && !outer.trainable(); }

// Makes the inner layer `spec`, the value of the wrapper's `key`. Null after a mistake.
std::unique_ptr<Layer> MakeInner(LayerConfig& outer, const char* key, const std::string& name,
                                 const nlohmann::json& spec);

}  // namespace paracord
