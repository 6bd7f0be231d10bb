// What the layers over images (image.cc, image_colour.cc) share: how Keras writes ranges. Used by
// one thread, while a model is read.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "keras/layers/layer.h"

namespace paracord {

// An error unless it is (height, width, channels).
absl::Status CheckImage(const Shape& shape);

// Two numbers of a key that is there; a mistake is left in the config.
std::pair<double, double> ReadPair(LayerConfig& config, const char* key);

// From the lower to the upper of two numbers, or from -f to f. A mistake, or what lies outside of
// `least` to -least, is left in the config.
std::pair<double, double> ReadRange(LayerConfig& config, const char* key, double least);

}  // namespace paracord
