// Functions that the layers over images in image.cc and image_colour.cc have in common.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "keras/layers/layer.h"

namespace paracord {

// INVALID_ARGUMENT unless the shape has three axes (height, width, channels), none of size 0.
absl::Status CheckImage(const Shape& shape);

// Reads a list of two finite numbers, and records any other value in the config as a mistake. The
// config must have the key, with a value that is not null.
std::pair<double, double> ReadPair(LayerConfig& config, const char* key);

// Reads a range: a list of its two ends, or a number f for the range -|f| to |f|. A missing key, or
// a range not within `least` (negative) to -`least`, is recorded in the config as a mistake.
std::pair<double, double> ReadRange(LayerConfig& config, const char* key, double least);

}  // namespace paracord
