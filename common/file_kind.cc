#include "common/file_kind.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view magic;
  std::string_view what;
};

constexpr Kind kKinds[] = {
    {"version https://git-lfs.github.com/spec"sv,
     "a pointer of Git LFS, not the file itself; fetch that with `git lfs pull`"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file (Keras' .h5)"},
    {"PK\x03\x04"sv, "a zip archive, as .zip, .keras and .npz files are; unpack it"},
    {"\x93NUMPY"sv, "a .npy file of numpy"},
    {"\x1f\x8b"sv, "a gzip file; unpack it"},
    {"\xfd\x37zXZ"sv, "an xz file; unpack it, or pack it with gzip instead"},
    {"BZh91AY&"sv, "a bzip2 file; unpack it, or pack it with gzip instead"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd file; unpack it, or pack it with gzip instead"},
    {"\x04\x22\x4d\x18"sv, "an lz4 file; unpack it, or pack it with gzip instead"},
    {"\xff\x06\0\0sNaPpY"sv, "a snappy file; unpack it, or pack it with gzip instead"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive; unpack it"},
    {"Rar!\x1a\x07"sv, "a rar archive; unpack it"},
    {"PAR1\x15"sv, "a Parquet file; `python3 -m paracord.convert FILE... OUT/` makes CSV of it"},
    {"ARROW1\0\0"sv,
     "a Feather (Arrow) file; `python3 -m paracord.convert FILE... OUT/` makes CSV of it"},
    {"FEA1\0"sv, "a Feather file; `python3 -m paracord.convert FILE... OUT/` makes CSV of it"},
    {"Obj\x01"sv,
     "an Avro file; save it as Parquet, of which `python3 -m paracord.convert` makes CSV"},
    {"SQLite format 3\0"sv, "a SQLite database; save its table as CSV"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an old file of an office program; save it as CSV"},
    {"MATLAB 5.0 MAT-file"sv, "a file of MATLAB; save its arrays as npy"},
    {"%PDF-"sv, "a PDF file"},
    {"\xff\xd8\xff"sv, "a JPEG image"},
    {"\x89PNG\r\n\x1a\n"sv, "a PNG image"},
    {"GIF8"sv, "a GIF image; save it as PNG"},
    {"II*\0"sv, "a TIFF image; save it as PNG"},
    {"MM\0*"sv, "a TIFF image; save it as PNG"},
};

}  // namespace

std::string FileKind(std::string_view beginning) {
  if (beginning.empty()) return "empty";
  for (const Kind& kind : kKinds) {
    if (beginning.starts_with(kind.magic)) return std::string(kind.what);
  }
  if (constexpr size_t kTarMagicAt = 257;
      beginning.size() > kTarMagicAt && beginning.substr(kTarMagicAt).starts_with("ustar")) {
    return "a tar archive; unpack it";
  }
  // A text may begin with "ORC", too; a text has no zero bytes.
  if (beginning.starts_with("ORC") && beginning.find('\0') != std::string_view::npos) {
    return "an ORC file; `python3 -m paracord.convert FILE... OUT/` makes CSV of it";
  }
  // PyTorch once saved models as pickles of protocol 2 or later.
  if (beginning.size() > 2 && beginning[0] == '\x80' && beginning[1] >= 2 && beginning[1] <= 5 &&
      beginning.find("\0\0"sv) != 2) {
    return "a pickle of Python; save its arrays as npy or safetensors";
  }
  if (beginning.size() > 12 && beginning.starts_with("RIFF") && beginning.substr(8, 4) == "WEBP") {
    return "a WebP image; save it as PNG";
  }
  if (beginning.size() > 14 && beginning.starts_with("BM") &&
      beginning.substr(6, 4) == "\0\0\0\0"sv) {
    return "a BMP image; save it as PNG";
  }
  if (IsHtmlPage(beginning)) {
    return "an HTML page, as a server sends in place of a file that it does not give; download it "
           "anew";
  }
  return "";
}

bool IsHtmlPage(std::string_view text) {
  while (!text.empty() && absl::ascii_isspace(static_cast<unsigned char>(text[0]))) {
    text.remove_prefix(1);
  }
  const absl::string_view start(text.data(), std::min<size_t>(text.size(), 16));
  return absl::StartsWithIgnoreCase(start, "<!doctype html") ||
         absl::StartsWithIgnoreCase(start, "<html");
}

std::string FileKindHint(std::string_view beginning) {
  const std::string kind = FileKind(beginning);
  return kind.empty() ? "" : absl::StrCat("; it is ", kind);
}

}  // namespace paracord
