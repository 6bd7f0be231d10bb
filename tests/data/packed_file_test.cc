// Packed files that are unpacked anew as they are read.
#include "data/packed_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "data/data_file.h"
#include "data/memory_files.h"
#include "data/packing.h"

namespace paracord {
namespace {

constexpr PackedFileSizes kSmall = {
    .block = 100, .every = 200, .states_max = 6, .blocks_max = 3, .readers_max = 2};

std::string SomeBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(Mix64(i / 7) % 50);
  return bytes;
}

absl::StatusOr<std::unique_ptr<ReadFile>> OpenPacked(Files& files, bool zlib = false) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> start, ByteStream::Open(files, "/packed", zlib));
  return PackedFile::Open(std::move(start), kSmall);
}

std::string Slice(const ReadFile& file, uint64_t offset, size_t count) {
  std::string bytes(count, '\0');
  const absl::Status read = file.ReadAt(offset, bytes);
  INFO(read);
  REQUIRE(read.ok());
  return bytes;
}

TEST_CASE("a packed file has the same bytes at any offset, read in any order") {
  for (const size_t count : {0, 1, 99, 100, 101, 1200, 20011}) {
    const std::string bytes = SomeBytes(count);
    const bool zlib = count % 2 == 1;
    MemoryFiles files;
    files.contents["/packed"] = zlib ? Deflate(bytes, MAX_WBITS) : Gzip(bytes);
    if (!zlib && count > 0) {  // of two members
      files.contents["/packed"] =
          Gzip(bytes.substr(0, count / 3)) + Gzip(bytes.substr(count / 3)) + std::string(9, '\0');
    }
    const auto file = OpenPacked(files, zlib);
    INFO(count << ": " << file.status());
    REQUIRE(file.ok());
    REQUIRE((*file)->size() == count);
    CHECK(Slice(**file, 0, count) == bytes);
    for (uint64_t i = 0; i < 500 && count > 0; ++i) {  // at random
      const uint64_t offset = Mix64(i) % count;
      const size_t some = std::min<size_t>(Mix64(i + 1000) % 350, count - offset);
      REQUIRE(Slice(**file, offset, some) == bytes.substr(offset, some));
    }
    for (uint64_t at = 0; at + 700 < count; at += 13) {  // two readers, one behind the other
      REQUIRE(Slice(**file, at + 600, 17) == bytes.substr(at + 600, 17));
      REQUIRE(Slice(**file, at, 17) == bytes.substr(at, 17));
    }
    std::string beyond(2, '\0');
    CHECK(absl::IsOutOfRange((*file)->ReadAt(count - std::min<size_t>(count, 1), beyond)));
    CHECK(absl::IsOutOfRange((*file)->ReadAt(count + 1, std::span<char>())));
  }
}

TEST_CASE("a packed file that is cut off or damaged is refused by its name when it is opened") {
  MemoryFiles files;
  const std::string packed = Gzip(SomeBytes(5000));
  for (const bool damaged : {false, true}) {
    std::string& contents = files.contents["/packed"];
    contents = damaged ? packed : packed.substr(0, packed.size() - 9);
    if (damaged) contents[packed.size() - 6] = static_cast<char>(contents[packed.size() - 6] ^ 1);
    const absl::Status status = OpenPacked(files).status();
    CHECK(absl::IsDataLoss(status));
    CHECK(absl::StrContains(status.message(), "/packed: the gzip data "));
  }
}

TEST_CASE("a packed file beyond what may be held is read all the same") {
  MemoryFiles files;
  const std::string bytes = SomeBytes(3 << 20);
  files.contents["/packed"] = Gzip(bytes);
  for (const uint64_t held_max : {uint64_t{0}, uint64_t{1} << 20, uint64_t{5} << 20}) {
    const auto file = OpenDataFile(files, "/packed", {.held_max = held_max});
    INFO(file.status());
    REQUIRE(file.ok());
    CHECK((dynamic_cast<const PackedFile*>(file->get()) != nullptr) == (held_max < bytes.size()));
    CHECK(Slice(**file, 0, bytes.size()) == bytes);
    CHECK(Slice(**file, 100, 200) == bytes.substr(100, 200));
  }
}

}  // namespace
}  // namespace paracord
