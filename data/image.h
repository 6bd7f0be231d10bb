// Decodes JPEG and PNG files (by libjpeg-turbo and libpng) to bytes, and resizes the bytes to
// floats. Any thread. Files may be malicious: the number of pixels is limited before memory for
// them is allocated, and truncated or damaged data are an error.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

constexpr uint64_t kPixelsMax = uint64_t{1} << 26;  // the most pixels of an image
constexpr uint64_t kImageSideMax = 1 << 14;         // the longest side that a job may ask for

struct Image {
  uint32_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> bytes;  // (height, width, channels)
};

// Decodes an image. `channels` of the result is 1 (grey: 0.299 red + 0.587 green + 0.114 blue) or
// 3. Samples of 16 bits are reduced to 8; transparency and gamma are ignored. INVALID_ARGUMENT says
// what is wrong, but does not name the file.
absl::StatusOr<Image> DecodeImage(std::string_view bytes, uint32_t channels,
                                  uint64_t pixels_max = kPixelsMax);

// Returns INVALID_ARGUMENT if the image has no pixels, or more than `pixels_max`.
absl::Status CheckPixels(uint64_t height, uint64_t width, uint64_t pixels_max);

// Resizes bilinearly, with the centres of pixels at half-integers and the edges repeated, like
// tf.image.resize without antialiasing. `out` gets the shape (height, width, image.channels), and
// its values are multiplied by `scale`.
void ResizeImage(const Image& image, uint32_t height, uint32_t width, float scale,
                 std::span<float> out);

}  // namespace paracord
