// Helpers for layers over images (image.cc, image_colour.cc): ranges in Keras' notation. Used by
// one thread, while a model is read.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "keras/layers/layer.h"

namespace paracord {

// Returns an error unless the shape is (height, width, channels).
absl::Status CheckImage(const Shape& shape);

// Reads two numbers of an existing key. Mistakes are recorded in the config.
std::pair<double, double> ReadPair(LayerConfig& config, const char* key);

// Reads a range: a lower and an upper number, or f for -f to f. The range must lie within `least`
// to -least (`least` is negative); mistakes are recorded in the config.
std::pair<double, double> ReadRange(LayerConfig& config, const char* key, double least);

}  // namespace paracord
