// Decodes PNG by libpng's row reader, for image.h alone.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "data/image.h"

namespace paracord {

// Gives 1 channel of a grey file and 3 of others. See DecodeImage.
absl::StatusOr<Image> DecodePng(std::string_view bytes, uint64_t pixels_max);

}  // namespace paracord
