// Helpers for layers over images (image.cc, image_colour.cc): ranges in Keras' notation. Used by
// one thread, while a model is read.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "keras/layers/layer.h"

namespace paracord {

// INVALID_ARGUMENT unless the shape is (height, width, channels), without an axis of size 0.
absl::Status CheckImage(const Shape& shape);

// Reads a list of two finite numbers; the key must not be null. Records mistakes in the config.
std::pair<double, double> ReadPair(LayerConfig& config, const char* key);

// Reads a range: two ends, or f for -|f| to |f|. A missing key, or a range that is not within
// `least` (negative) to -`least`, is a mistake, recorded in the config.
std::pair<double, double> ReadRange(LayerConfig& config, const char* key, double least);

}  // namespace paracord
