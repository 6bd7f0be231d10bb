// A layer as a value of another layer's config, {"class_name", "config"}: what wrappers are made
// of. Mistakes are left in the wrapper's config. Pure.
#pragma once

#include <memory>
#include <string>

#include "keras/layers/layers.h"

namespace paracord {

std::string NameIn(const nlohmann::json& spec);

// The value, or an object without a class where there is none.
nlohmann::json SpecOf(LayerConfig& config, const char* key);

// In Keras 2 a frozen wrapper freezes what it wraps; in Keras 3 the layer within says it.
inline bool FreezesWithin(const LayerConfig& outer) { return outer.keras2() && !outer.trainable(); }

// Null: `outer` says why.
std::unique_ptr<Layer> MakeInner(LayerConfig& outer, const char* key, const std::string& name,
                                 const nlohmann::json& spec);

}  // namespace paracord
