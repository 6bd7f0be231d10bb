#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "common/json_text.h"
#include "data/image.h"
#include "data/memory_files.h"
#include "tests/data/source_testing.h"
#include "tests/golden/golden.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

constexpr uint32_t kHeight = 13, kWidth = 17;  // size of every image in the golden file

struct Golden {
  std::string name, file, rgb;
  Values resized;
};

std::string Decoded(const json& text) {
  std::string bytes;
  REQUIRE(absl::Base64Unescape(text.get<std::string>(), &bytes));
  return bytes;
}

const std::vector<Golden>& Goldens() {
  static const std::vector<Golden> goldens = [] {
    std::vector<Golden> all;
    for (const json& each : GoldenJson("images.json")) {
      all.push_back({each["name"], Decoded(each["file"]), Decoded(each["rgb"]),
                     each["resized_5_23"].get<Values>()});
    }
    return all;
  }();
  return goldens;
}

const std::string& File(const std::string& name) {
  for (const Golden& golden : Goldens()) {
    if (golden.name == name) return golden.file;
  }
  throw std::runtime_error(name);
}

OpenedSource OpenImages(MemoryFiles& files, const json& options) {
  return OpenDataSource(files, {"images", JsonOf(TextOf(options))});
}

TEST_CASE("JPEG and PNG files of every kind are decoded and resized as by TensorFlow") {
  for (const Golden& golden : Goldens()) {
    INFO(golden.name);
    const auto image = DecodeImage(golden.file, 3);
    INFO(image.status());
    REQUIRE(image.ok());
    REQUIRE(image->height == kHeight);
    REQUIRE(image->width == kWidth);
    REQUIRE(image->bytes.size() == golden.rgb.size());
    int worst = 0;
    for (size_t i = 0; i < golden.rgb.size(); ++i) {
      worst = std::max(worst, std::abs(image->bytes[i] - static_cast<uint8_t>(golden.rgb[i])));
    }
    CHECK(worst <= 1);
    Values resized(5 * 23 * 3);
    ResizeImage(*image, 5, 23, 0.5f, resized);
    float difference = 0;
    for (size_t i = 0; i < resized.size(); ++i) {
      difference = std::max(difference, std::abs(2 * resized[i] - golden.resized[i]));
    }
    CHECK(difference < 1.01f);
  }
}

TEST_CASE("a PNG's numbers are taken as they are, whatever gamma it says they have") {
  const std::string& png = File("rgb.png");
  const auto plain = DecodeImage(png, 3);
  REQUIRE(plain.ok());
  constexpr size_t kHeaderEnd = 33;
  // The chunks set a gamma of 1, of 1.8 and of a screen, with right checksums.
  for (const std::string& chunk :
       {Decoded("AAAABGdBTUEAAYagMeiWXw=="), Decoded("AAAABGdBTUEAANkE3LLaAg=="),
        Decoded("AAAABGdBTUEAALGPC/xhBQ==")}) {
    const auto image = DecodeImage(png.substr(0, kHeaderEnd) + chunk + png.substr(kHeaderEnd), 3);
    REQUIRE(image.ok());
    CHECK(image->bytes == plain->bytes);
  }
}

TEST_CASE("an interlaced PNG of 16 bits a sample has the pixels that were written") {
  struct Interlaced {
    const char* file;  // base64: RGB, grey, RGB with alpha
    std::vector<int> pixels;
  };
  for (const Interlaced& each : std::vector<Interlaced>{
           {"iVBORw0KGgoAAAANSUhEUgAAAAQAAAADEAIAAAEcAdVEAAAAWUlEQVR4nAFOALH/A8++Fe0t7wPehpUI"
            "ChYEa4xuPaqUVi2GkB+wATyfLm3NINx5J56hwQRamf7R78KyqfzfOCUAnwh6o0PJKOSxALwNCF4dGXO+"
            "ZCfjSIRJVT8ir1M1ioIAAAAASUVORK5CYII=",
            {207, 22,  46,  60,  46,  204, 222, 148, 10,  24,  85,  110,
             158, 122, 68,  41,  176, 187, 8,   29,  115, 100, 226, 132,
             107, 110, 170, 150, 44,  188, 193, 244, 200, 72,  82,  165}},
           {"iVBORw0KGgoAAAANSUhEUgAAAAQAAAADEAAAAAG2CB3PAAAAKUlEQVR4nAEeAOH/ABOwA/GiAqmkPqMA"
            "+TRMZAGVzePaAyOmPw7j2N9DwA8NfYZxea4AAAAASUVORK5CYII=",
            {20, 248, 241, 76, 36, 80, 11, 227, 169, 149, 62, 120}},
           {"iVBORw0KGgoAAAANSUhEUgAAAAQAAAADEAYAAAGTY0ITAAAAcUlEQVR4nAFmAJn/A4ULX85A7hdCBO2N"
            "NQqbsKFNAFNa4ORidBox5vV6zGK8JXYBm82pFoUs7nSkqqM+95TPbwL8HTB0I912ZPf0ZnhQ1Y3cAkrh"
            "uN+nXTf9Y0nUc9e5qFsBNa7LOaHR8Onjbbb0/MI62Lg1dG1Maj4AAAAASUVORK5CYII=",
            {133, 95,  65,  155, 168, 133, 237, 53,  155, 63,  76,  124,
             75,  184, 167, 99,  212, 215, 1,   174, 57,  233, 109, 244,
             83,  224, 98,  151, 217, 167, 230, 122, 98,  54,  178, 204}},
       }) {
    const uint32_t channels = each.pixels.size() == 12 ? 1 : 3;
    const auto image = DecodeImage(Decoded(each.file), channels);
    INFO(image.status());
    REQUIRE(image.ok());
    CHECK(std::vector<int>(image->bytes.begin(), image->bytes.end()) == each.pixels);
  }
}

TEST_CASE("grey is the same from every kind of file") {
  const auto grey = DecodeImage(File("grey.png"), 1);
  REQUIRE(grey.ok());
  CHECK(grey->bytes[kWidth * 2] == 38);  // 19 per row
  const auto colour = DecodeImage(File("rgb.png"), 1);
  REQUIRE(colour.ok());
  CHECK(colour->bytes[kWidth + 1] == 14);  // 14.6, truncated as in TensorFlow
  CHECK(DecodeImage(File("rgb.jpg"), 1)->bytes.size() == kWidth * kHeight);
}

TEST_CASE("an image of the wanted size is not changed by resizing") {
  const auto image = DecodeImage(File("rgb.png"), 3);
  Values same(image->bytes.size());
  ResizeImage(*image, kHeight, kWidth, 1, same);
  CHECK(same == Values(image->bytes.begin(), image->bytes.end()));
}

TEST_CASE("a folder is a class, by name, and other files are left alone") {
  MemoryFiles files;
  files.contents = {{"/d/b/2.PNG", File("rgb.png")},  {"/d/b/1.jpeg", File("rgb.jpg")},
                    {"/d/a/x.png", File("grey.png")}, {"/d/b/notes.txt", "hello"},
                    {"/d/aa/x.gif", "no image"},      {"/d/README", "hello"},
                    {"/d/.cache/z.png", "junk"},      {"/d/a/.hidden.png", "junk"}};
  const json options = {{"folder", "/d"}, {"size", {4, 6}}, {"channels", 1}, {"scale", 0.5}};
  const auto source = OpenImages(files, options);
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->records() == 3);
  CHECK((*source)->Describe() == "3 classes");  // counts the class without an image, too
  CHECK((*source)->Warnings() ==
        std::vector<std::string>{
            "2 files in the class folders are left out (1 of .gif, 1 of .txt): .jpg, .jpeg and "
            ".png are read; save other images as one of these"});
  CHECK((*source)->schema().inputs[0].shape == std::vector<uint64_t>{4, 6, 1});
  Batch batch;
  REQUIRE((*source)->Read(std::vector<uint64_t>{0, 1, 2}, batch).ok());
  CHECK(batch.targets[0].values == Values{0, 2, 2});
  CHECK(batch.inputs[0].values.size() == 3 * 24);
  CHECK((*source)->Where(1) == "/d/b/1.jpeg");
  json other = options;
  other["classes"] = {"b", "a"};
  const auto swapped = OpenImages(files, other);
  REQUIRE(swapped.ok());
  REQUIRE((*swapped)->Read(std::vector<uint64_t>{0, 1, 2}, batch).ok());
  CHECK(batch.targets[0].values == Values{0, 0, 1});
  CHECK((*swapped)->fingerprint() != (*source)->fingerprint());
}

TEST_CASE("a folder that cannot be looked into is an error, not one class less") {
  class OneUnreadable : public MemoryFiles {
   public:
    absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
      if (path == "/d/b") return absl::PermissionDeniedError("cannot list " + path);
      return MemoryFiles::List(path);
    }
  };
  OneUnreadable files;
  for (const char* path : {"/d/a/1.png", "/d/b/2.png", "/d/c/3.png"}) {
    files.contents[path] = File("grey.png");
  }
  const auto source = OpenImages(files, {{"folder", "/d"}, {"size", {4, 6}}});
  CHECK(source.status().message() == "cannot list /d/b");
}

TEST_CASE("a list names files and their classes") {
  MemoryFiles files;
  files.contents = {{"/d/i/2.png", File("rgb.png")},
                    {"/e/1,5.jpg", File("rgb.jpg")},
                    {"/d/list", "i/2.png,dog\r\n\n/e/1,5.jpg\tcat\n"}};
  const auto source = OpenImages(files, {{"list", "/d/list"}, {"size", {2, 2}}});
  INFO(source.status());
  REQUIRE(source.ok());
  Batch batch;
  REQUIRE((*source)->Read(std::vector<uint64_t>{0, 1}, batch).ok());
  CHECK(batch.targets[0].values == Values{1, 0});
}

TEST_CASE("damaged images are refused by file") {
  const std::string jpeg = File("rgb.jpg"), png = File("rgb.png");
  std::string huge = png;  // 2^31 - 1 pixels a side; the header's CRC is wrong as well
  huge.replace(16, 8, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff"));
  std::string large = png;  // a header, with its checksum, that says 8193 x 8192 pixels
  large.replace(16, 8, std::string("\0\0\x20\1\0\0\x20\0", 8));
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(large.data()) + 12, 17);
  for (size_t i = 0; i < 4; ++i) large[29 + i] = static_cast<char>(crc >> (24 - 8 * i) & 0xff);
  std::string big_jpeg = jpeg;
  const size_t frame = big_jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  big_jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  std::string bad_crc = png;
  bad_crc[png.size() / 2] ^= 1;
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "/d/a/x.png: is neither JPEG nor PNG"},
      {"GIF89a", "/d/a/x.png: is neither JPEG nor PNG"},
      {jpeg.substr(0, 3), "/d/a/x.png: the JPEG is damaged"},
      {jpeg.substr(0, jpeg.size() / 2), "/d/a/x.png: the JPEG is damaged"},
      {jpeg.substr(0, jpeg.size() - 12), "/d/a/x.png: the JPEG is damaged"},
      {big_jpeg, "/d/a/x.png: the image is 65500 x 65500, not 1 to 67108864 pixels: scale"},
      {large, "/d/a/x.png: the image is 8192 x 8193, not 1 to 67108864 pixels: scale"},
      {png.substr(0, 8), "/d/a/x.png: the PNG is damaged"},
      {png.substr(0, png.size() / 2), "/d/a/x.png: the PNG is damaged"},
      {bad_crc, "/d/a/x.png: the PNG is damaged"},
      {huge, "/d/a/x.png: the PNG is damaged"},
  };
  for (const auto& [bytes, message] : table) {
    MemoryFiles files;
    files.contents["/d/a/x.png"] = bytes;
    const auto source = OpenImages(files, {{"folder", "/d"}, {"size", {4, 4}}});
    INFO(message << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(std::string(source.status().message()).find(message) != std::string::npos);
  }
  CHECK(DecodeImage(png, 3, kWidth * kHeight).ok());
  CHECK_FALSE(DecodeImage(png, 3, kWidth * kHeight - 1).ok());
}

TEST_CASE("no damage to an image is more than an error") {
  for (const Golden& golden : Goldens()) {
    for (size_t at = 0; at < golden.file.size(); ++at) {
      std::string bad = golden.file;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
      (void)DecodeImage(bad, 3, 1 << 16);
      (void)DecodeImage(golden.file.substr(0, at), 1, 1 << 16);
    }
  }
}

TEST_CASE("wrong options of images are refused by key, all at once") {
  MemoryFiles files;
  files.contents["/d/a/x.png"] = File("rgb.png");
  for (const char* path : {"/other/a/x.gif", "/other/a/y.GIF", "/other/b/x.bmp"}) {
    files.contents[path] = "no image";
  }
  files.contents["/list"] = "x.png\n";
  files.contents["/list2"] = "/d/a/x.png,cat\n";
  const RefusedOptions table = {
      {json::object(), {"folder: give either `folder` or `list`", "size: is missing"}},
      {{{"folder", "/d"}, {"size", {0, 4}}, {"channels", 2}, {"chanels", 1}},
       {"size: must be [height, width]", "channels: must be 1 or 3", "chanels: unknown key"}},
      {{{"folder", "/d/a"}, {"size", {4, 4}}},
       {"/d/a: has no folders with images: put those of each class "
        "into a folder of its own, as /d/a/cat/1.jpg"}},
      {{{"folder", "/other"}, {"size", {4, 4}}},
       {"/other: 3 files in the class folders are left out (1 of .bmp, 2 of .gif): .jpg, .jpeg "
        "and .png are read; save other images as one of these"}},
      {{{"list", "/list"}, {"size", {4, 4}}}, {"/list row 0: is not a path, a tab and a class"}},
      {{{"folder", "/d"}, {"size", {4, 4}}, {"classes", {"a", "b", "a"}}},
       {"data (images).classes: holds \"a\" twice"}},
      {{{"list", "/list2"}, {"size", {4, 4}}, {"classes", {"dog"}}},
       {"the class \"cat\" of /d/a/x.png is not in `classes`"}},
  };
  CheckRefused(table, [&](const json& options) { return OpenImages(files, options); });
}

}  // namespace
}  // namespace paracord
