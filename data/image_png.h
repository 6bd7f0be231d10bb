// Decodes PNG with libpng's low-level interface. Only image.cc includes this header.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "data/image.h"

namespace paracord {

// Returns 1 channel for a grey file, otherwise 3. See DecodeImage.
absl::StatusOr<Image> DecodePng(std::string_view bytes, uint64_t pixels_max);

}  // namespace paracord
