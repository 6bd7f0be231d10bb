// Memory of arrays during their reading. Daemons keep freed memory, so garbage on the way would
// stay with the worker for good.
#include <catch2/catch.hpp>
#include <string>

#include "data/array.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "steady/counted_malloc.h"

namespace paracord {
namespace {

constexpr uint32_t kRecords = 20000, kSize = 200;
constexpr size_t kLarge = 1 << 20;

// Returns an idx file that announces `announced` records of kSize each.
std::string Idx(uint32_t announced, const std::string& elements) {
  std::string file{0, 0, 8, 2};
  for (const uint32_t dim : {announced, kSize}) {
    for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(dim >> shift);
  }
  return file + elements;
}

std::string Npy(const std::string& elements) {
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (20000, 200), }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size()) + '\0' + dict +
         elements;
}

LargeAllocations CountReading(MemoryFiles& files, ReadArrayHeader read_header) {
  auto stream = ByteStream::Open(files, "/x");
  REQUIRE(stream.ok());
  const absl::StatusOr<ArrayHeader> header = read_header(**stream);
  REQUIRE(header.ok());
  Array array;
  StartCounting(kLarge);
  const absl::Status read = array.Append(*header, **stream);
  const LargeAllocations counted = StopCounting();
  CHECK(read.ok() == (header->shape[0] == kRecords));
  return counted;
}

TEST_CASE("an array takes the memory of its elements, at once") {
  const std::string bytes(size_t{kRecords} * kSize, '\1');
  MemoryFiles files;
  SECTION("bytes of a file") {
    files.contents["/x"] = Idx(kRecords, bytes);
    const LargeAllocations counted = CountReading(files, ReadIdxHeader);
    CHECK(counted.count == 1);
    CHECK(counted.largest == bytes.size());
  }
  SECTION("packed bytes") {
    files.contents["/x"] = Gzip(Idx(kRecords, bytes));
    const LargeAllocations counted = CountReading(files, ReadIdxHeader);
    CHECK(counted.count == 1);
    CHECK(counted.largest == bytes.size());
  }
  SECTION("floats") {
    files.contents["/x"] = Npy(std::string(bytes.size() * 4, '\0'));
    const LargeAllocations counted = CountReading(files, ReadNpyHeader);
    CHECK(counted.count == 1);
    CHECK(counted.largest == bytes.size() * 4);
  }
}

TEST_CASE("a header that announces more than its file can hold takes nothing") {
  const std::string bytes(kSize, '\1');
  MemoryFiles files;
  SECTION("in a file") { files.contents["/x"] = Idx(100'000'000, bytes); }
  SECTION("packed") { files.contents["/x"] = Gzip(Idx(100'000'000, bytes)); }
  CHECK(CountReading(files, ReadIdxHeader).count == 0);
}

}  // namespace
}  // namespace paracord
