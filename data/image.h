// JPEG and PNG (libjpeg-turbo, libpng) to bytes, and bytes to floats of the wanted size. Pure;
// any thread. Nothing a file holds is trusted: its size is limited before anything is allocated,
// and data that is cut off or damaged is an error, not a grey picture.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

constexpr uint64_t kPixelsMax = uint64_t{1} << 26;

struct Image {
  uint32_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> bytes;  // (height, width, channels)
};

// `channels`: 1 (grey: 0.299 red + 0.587 green + 0.114 blue) or 3. 16 bits become 8,
// transparency and gamma do not count. INVALID_ARGUMENT says what is wrong, not where.
absl::StatusOr<Image> DecodeImage(std::string_view bytes, uint32_t channels,
                                  uint64_t pixels_max = kPixelsMax);

// Bilinear with the centres of pixels at half-integers and edges repeated, as tf.image.resize
// without antialiasing. `out` is (height, width, image.channels); values are times `scale`.
void ResizeImage(const Image& image, uint32_t height, uint32_t width, float scale,
                 std::span<float> out);

}  // namespace paracord
