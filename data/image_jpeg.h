// The part of image.h for JPEG, in its own file because libjpeg reports errors by longjmp.
#pragma once

#include "data/image.h"

namespace paracord {

// Decodes to grey if `channels` is 1, otherwise to RGB. A CMYK image cannot become grey.
absl::StatusOr<Image> DecodeJpeg(std::string_view bytes, uint32_t channels, uint64_t pixels_max);

}  // namespace paracord
