// The part of image.h for PNG, with libpng's low-level interface.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "data/image.h"

namespace paracord {

// Decodes a grey image to 1 channel, and any other image to 3 channels.
absl::StatusOr<Image> DecodePng(std::string_view bytes, uint64_t pixels_max);

}  // namespace paracord
