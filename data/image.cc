#include "data/image.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/file_kind.h"
#include "data/image_jpeg.h"
#include "data/image_png.h"

namespace paracord {
namespace {

// Converts to the wanted number of channels. The weights of grey are libpng's, in 2^-15 and
// truncated, which TensorFlow uses as well.
void Convert(uint32_t channels, Image& image) {
  if (image.channels == channels) return;
  const size_t pixels = size_t{image.height} * image.width;
  std::vector<uint8_t> bytes(pixels * channels);
  for (size_t i = 0; i < pixels; ++i) {
    if (channels == 3) {
      std::fill_n(&bytes[3 * i], 3, image.bytes[i]);
    } else {
      const uint8_t* rgb = &image.bytes[3 * i];
      bytes[i] = static_cast<uint8_t>((9797 * rgb[0] + 19234 * rgb[1] + 3737 * rgb[2]) >> 15);
    }
  }
  image.bytes = std::move(bytes);
  image.channels = channels;
}

// An output row or column interpolates between two of the input; `share` is the weight of `high`.
struct Tap {
  uint32_t low, high;
  float share;
};

std::vector<Tap> Taps(uint32_t from, uint32_t to) {
  std::vector<Tap> taps(to);
  const double step = static_cast<double>(from) / to;
  for (uint32_t i = 0; i < to; ++i) {
    const double at = (i + 0.5) * step - 0.5;
    const double low = std::floor(at);
    taps[i].low = static_cast<uint32_t>(std::clamp(low, 0.0, from - 1.0));
    taps[i].high = static_cast<uint32_t>(std::clamp(low + 1, 0.0, from - 1.0));
    taps[i].share = static_cast<float>(at - low);
  }
  return taps;
}

}  // namespace

absl::Status CheckPixels(uint64_t height, uint64_t width, uint64_t pixels_max) {
  if (height > 0 && width > 0 && width <= pixels_max / height) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the image is ", height, " x ", width,
                                                 ", not 1 to ", pixels_max,
                                                 " pixels: scale a larger one down on disk"));
}

absl::StatusOr<Image> DecodeImage(std::string_view bytes, uint32_t channels, uint64_t pixels_max) {
  absl::StatusOr<Image> image = absl::InvalidArgumentError(
      absl::StrCat("is neither JPEG nor PNG", FileKindHint(bytes.substr(0, kFileKindBytes))));
  if (bytes.starts_with("\xff\xd8\xff")) {
    image = DecodeJpeg(bytes, channels, pixels_max);
  } else if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    image = DecodePng(bytes, pixels_max);
  }
  if (image.ok()) Convert(channels, *image);
  return image;
}

void ResizeImage(const Image& image, uint32_t height, uint32_t width, float scale,
                 std::span<float> out) {
  const std::vector<Tap> rows = Taps(image.height, height), columns = Taps(image.width, width);
  const size_t channels = image.channels;
  const auto at = [&](uint32_t row, uint32_t column, size_t channel) {
    return static_cast<float>(
        image.bytes[(size_t{row} * image.width + column) * channels + channel]);
  };
  float* to = out.data();
  for (const Tap& row : rows) {
    for (const Tap& column : columns) {
      for (size_t channel = 0; channel < channels; ++channel) {
        const float a = at(row.low, column.low, channel), b = at(row.low, column.high, channel);
        const float c = at(row.high, column.low, channel), d = at(row.high, column.high, channel);
        const float top = a + (b - a) * column.share;
        const float bottom = c + (d - c) * column.share;
        *to++ = (top + (bottom - top) * row.share) * scale;
      }
    }
  }
}

}  // namespace paracord
