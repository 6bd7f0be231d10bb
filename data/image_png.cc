#include "data/image_png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

// The state of a decode, in the caller of the function that longjmp returns to. All frames in
// between belong to libpng or this file, and own nothing.
struct PngDecode {
  ~PngDecode() { png_destroy_read_struct(&png, &info, nullptr); }

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf failed{};
  char message[256] = "no memory";
  std::string_view left;  // bytes not yet read by libpng
  png_bytepp rows = nullptr;
};

[[noreturn]] void FailPng(png_structp png, png_const_charp message) {
  auto* decode = static_cast<PngDecode*>(png_get_error_ptr(png));
  std::snprintf(decode->message, sizeof decode->message, "%s", message);
  std::longjmp(decode->failed, 1);
}

void IgnorePng(png_structp /*png*/, png_const_charp /*message*/) {}

void ReadPng(png_structp png, png_bytep to, size_t size) {
  auto* decode = static_cast<PngDecode*>(png_get_io_ptr(png));
  if (decode->left.size() < size) FailPng(png, "read beyond end of data");
  std::memcpy(to, decode->left.data(), size);
  decode->left.remove_prefix(size);
}

// Each of these functions returns false when libpng gave up, with the reason in `message`. All
// their state lies in `decode`, because longjmp may spoil arguments and locals of the function it
// returns to.
bool ReadPngHeader(PngDecode& decode) {
  if (setjmp(decode.failed) != 0) return false;
  decode.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decode, FailPng, IgnorePng);
  if (decode.png == nullptr) return false;
  decode.info = png_create_info_struct(decode.png);
  if (decode.info == nullptr) return false;
  png_set_benign_errors(decode.png, 1);
  png_set_read_fn(decode.png, &decode, ReadPng);
  png_read_info(decode.png, decode.info);
  // To 8 bits a sample: spreads grey of 1, 2 and 4 bits and palettes, rounds 16 bits. Sets no
  // gamma, to leave the numbers unchanged, like TensorFlow.
  png_set_expand(decode.png);
  png_set_scale_16(decode.png);
  png_set_interlace_handling(decode.png);
  png_read_update_info(decode.png, decode.info);
  return true;
}

bool ReadPngRows(PngDecode& decode) {
  if (setjmp(decode.failed) != 0) return false;
  png_read_image(decode.png, decode.rows);
  return true;
}

}  // namespace

absl::StatusOr<Image> DecodePng(std::string_view bytes, uint64_t pixels_max) {
  PngDecode decode;
  decode.left = bytes;
  const auto failed = [&] {
    return absl::InvalidArgumentError(absl::StrCat("the PNG is damaged: ", decode.message));
  };
  if (!ReadPngHeader(decode)) return failed();
  const size_t stored = png_get_channels(decode.png, decode.info);  // with alpha
  Image image{png_get_image_height(decode.png, decode.info),
              png_get_image_width(decode.png, decode.info),
              stored > 2 ? 3u : 1u,
              {}};
  RETURN_IF_ERROR(CheckPixels(image.height, image.width, pixels_max));
  const size_t pixels = size_t{image.height} * image.width, size = image.channels;
  image.bytes.resize(pixels * stored);
  std::vector<png_bytep> rows(image.height);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = image.bytes.data() + i * size_t{image.width} * stored;
  }
  decode.rows = rows.data();
  if (!ReadPngRows(decode)) return failed();
  // Transparent pixels keep their colour, as in TensorFlow.
  for (size_t i = 1; i < pixels && stored > size; ++i) {
    std::copy_n(&image.bytes[i * stored], size, &image.bytes[i * size]);
  }
  image.bytes.resize(pixels * size);
  return image;
}

}  // namespace paracord
