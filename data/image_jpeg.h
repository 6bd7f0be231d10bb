// The JPEG half of image.h, apart because libjpeg reports errors by longjmp.
#pragma once

#include "data/image.h"

namespace paracord {

// Decodes to grey or RGB, as `channels` asks for.
absl::StatusOr<Image> DecodeJpeg(std::string_view bytes, uint32_t channels, uint64_t pixels_max);

}  // namespace paracord
