#include "data/image_jpeg.h"

#include <csetjmp>
#include <cstdio>
// libjpeg's headers need the two above.
#include <jerror.h>
#include <jpeglib.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr int kScansMax = 500;  // a progressive file may hold any number of empty scans

// The state of a decode, in the caller of the function that longjmp returns to. All frames in
// between belong to libjpeg or this file, and own nothing.
struct Decode {
  ~Decode() { jpeg_destroy_decompress(&jpeg); }

  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf failed{};
  char message[JMSG_LENGTH_MAX] = {};
  std::string_view bytes;
  J_COLOR_SPACE colours = JCS_RGB;
  uint8_t* to = nullptr;
  JSAMPROW row = nullptr;
};

[[noreturn]] void Fail(j_common_ptr common) {
  auto* decode = static_cast<Decode*>(common->client_data);
  common->err->format_message(common, decode->message);
  std::longjmp(decode->failed, 1);
}

// Treats libjpeg's warnings of truncated or damaged data as errors: libjpeg would invent the rest.
void Emit(j_common_ptr common, int level) {
  const int code = common->err->msg_code;
  const bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
                        code == JWRN_JFIF_MAJOR || code == JWRN_BOGUS_PROGRESSION;
  if (level < 0 && !harmless) Fail(common);
}

void Progress(j_common_ptr common) {
  auto* decode = static_cast<Decode*>(common->client_data);
  if (decode->jpeg.input_scan_number <= kScansMax) return;
  std::snprintf(decode->message, sizeof decode->message, "more than %d scans", kScansMax);
  std::longjmp(decode->failed, 1);
}

// Each of these functions returns false when libjpeg gave up, with the reason in `message`. All
// their state lies in `decode`, because longjmp may spoil arguments and locals of the function it
// returns to.
bool ReadHeader(Decode& decode) {
  if (setjmp(decode.failed) != 0) return false;
  jpeg_create_decompress(&decode.jpeg);
  decode.jpeg.progress = &decode.progress;
  jpeg_mem_src(&decode.jpeg, reinterpret_cast<const unsigned char*>(decode.bytes.data()),
               static_cast<unsigned long>(decode.bytes.size()));
  jpeg_read_header(&decode.jpeg, TRUE);
  // libjpeg cannot convert CMYK to RGB: decodes the inks, for ToColours to convert.
  const J_COLOR_SPACE within = decode.jpeg.jpeg_color_space;
  if (within == JCS_CMYK || within == JCS_YCCK) decode.colours = JCS_CMYK;
  decode.jpeg.out_color_space = decode.colours;
  return true;
}

bool ReadRows(Decode& decode) {
  if (setjmp(decode.failed) != 0) return false;
  jpeg_start_decompress(&decode.jpeg);
  while (decode.jpeg.output_scanline < decode.jpeg.output_height) {
    decode.row = decode.to + size_t{decode.jpeg.output_scanline} * decode.jpeg.output_width *
                                 static_cast<size_t>(decode.jpeg.output_components);
    jpeg_read_scanlines(&decode.jpeg, &decode.row, 1);
  }
  jpeg_finish_decompress(&decode.jpeg);
  return true;
}

// Converts cyan, magenta, yellow and black, stored inverted by Adobe, as TensorFlow does.
void ToColours(const std::vector<uint8_t>& inks, bool inverted, std::vector<uint8_t>& colours) {
  const auto light = [&](size_t at) { return inverted ? inks[at] : 255 - inks[at]; };
  for (size_t pixel = 0; pixel < inks.size() / 4; ++pixel) {
    for (size_t c = 0; c < 3; ++c) {
      const int both = light(4 * pixel + c) * light(4 * pixel + 3) / 255;
      colours[3 * pixel + c] = static_cast<uint8_t>(both);
    }
  }
}

}  // namespace

absl::StatusOr<Image> DecodeJpeg(std::string_view bytes, uint32_t channels, uint64_t pixels_max) {
  Decode decode;
  decode.jpeg.err = jpeg_std_error(&decode.errors);
  decode.jpeg.client_data = &decode;
  decode.errors.error_exit = Fail;
  decode.errors.emit_message = Emit;
  decode.progress.progress_monitor = Progress;
  const auto failed = [&] {
    return absl::InvalidArgumentError(absl::StrCat("the JPEG is damaged: ", decode.message));
  };
  decode.bytes = bytes;
  decode.colours = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (!ReadHeader(decode)) return failed();
  Image image{decode.jpeg.image_height, decode.jpeg.image_width, channels, {}};
  RETURN_IF_ERROR(CheckPixels(image.height, image.width, pixels_max));
  const size_t pixels = size_t{image.height} * image.width;
  const bool inks = decode.colours == JCS_CMYK;
  if (inks && channels != 3) {
    return absl::InvalidArgumentError("the JPEG is in CMYK, of which grey cannot be made");
  }
  image.bytes.resize(pixels * channels);
  std::vector<uint8_t> four(inks ? pixels * 4 : 0);
  decode.to = inks ? four.data() : image.bytes.data();
  if (!ReadRows(decode)) return failed();
  if (inks) ToColours(four, decode.jpeg.saw_Adobe_marker != FALSE, image.bytes);
  return image;
}

}  // namespace paracord
