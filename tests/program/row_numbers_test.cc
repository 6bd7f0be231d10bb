// The ids of a batch from files of several formats, and the errors for numbers that are no ids.
#include "program/row_numbers.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "absl/strings/match.h"
#include "common/json_text.h"
#include "tests/data/memory_files.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

std::string NpyOf(const std::string& descr, const std::vector<uint64_t>& words) {
  const std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (3,), }\n";
  std::string file("\x93NUMPY\x01\0", 8);
  file += static_cast<char>(dict.size());
  file += '\0';
  std::string bytes(words.size() * sizeof(uint64_t), '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return file + dict + bytes;
}

// Asks for the ids of all records of a source.
absl::Status AskIds(const OpenedSource& source, int64_t rows, std::vector<uint64_t>& ids) {
  Batch batch = ReadAllRecords(source);
  batch.source = source->get();
  ids.clear();
  return AddIds(batch, batch.inputs[0], {"user", rows}, ids);
}

TEST_CASE(
    "an id beyond int64 is refused with its file, row and digits, or one of a growing table") {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  MemoryFiles files;
  files.contents["/y"] = NpyOf("<i8", {0, 0, 0});
  files.contents["/u"] = NpyOf("<u8", {1, kTop, 2});
  files.contents["/i"] = NpyOf("<i8", {1, UINT64_MAX, 2});
  files.contents["/c"] = "a,y\n1,0\n18446744073709551615,0\n2,0\n";
  files.contents["/d"] = "a,y\n1,0\n18446744073709551616,0\n2,0\n";
  const auto open = [&](const std::string& path) {
    const bool csv = path == "/c" || path == "/d";
    const json options = csv ? json{{"files", path}, {"features", "a"}, {"label", "y"}}
                             : json{{"features", path}, {"labels", "/y"}};
    return OpenDataSource(files, {csv ? "csv" : "npy", options});
  };
  const auto of_1000 = [&](const std::string& path) {
    std::vector<uint64_t> ids;
    const absl::Status refused = AskIds(open(path), 1000, ids);
    CHECK(absl::IsInvalidArgument(refused));
    return std::string(refused.message());
  };
  const std::string none = " is not in the table of user, whose 1000 rows are 0 to 999";
  CHECK(of_1000("/u") == "/u row 1, /y row 1: id 9223372036854775808" + none);
  CHECK(of_1000("/i") == "/i row 1, /y row 1: id -1" + none);
  CHECK(of_1000("/c") == "/c row 1: id 18446744073709551615" + none);
  CHECK(of_1000("/d") == "/d row 1: id 1.84467e+19 is beyond the 64 bits of an id");
  std::vector<uint64_t> ids;
  CHECK(AskIds(open("/u"), 0, ids).ok());
  CHECK(ids == std::vector<uint64_t>{1, kTop, 2});
  CHECK(AskIds(open("/c"), 0, ids).ok());
  CHECK(ids == std::vector<uint64_t>{1, UINT64_MAX, 2});
  CHECK(AskIds(open("/d"), 0, ids).message() ==
        "/d row 1: id 1.84467e+19 is beyond the 64 bits of an id");
}

}  // namespace
}  // namespace paracord
