// Decodes the bytes as JPEG or PNG, and resizes the image.
#include "data/image.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kPixels = 1 << 16;
  Input input(data, size);
  const uint32_t channels = input.Number(255) % 2 == 0 ? 1 : 3;
  const absl::StatusOr<Image> image = DecodeImage(input.Rest(), channels, kPixels);
  if (!image.ok()) return 0;
  Demand(uint64_t{image->height} * image->width <= kPixels, "a picture has no more pixels");
  Demand(image->bytes.size() == uint64_t{image->height} * image->width * image->channels,
         "a picture has all its bytes");
  Demand(image->channels == channels, "a picture has the channels that were asked for");
  std::vector<float> out(3 * 5 * channels);
  ResizeImage(*image, 3, 5, 0.5f, out);
  return 0;
}

}  // namespace paracord::fuzz
