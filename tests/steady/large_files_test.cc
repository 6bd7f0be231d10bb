// Files larger than a reader's memory limit: opening a file and random reads take little memory.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "data/array.h"
#include "data/data_source.h"
#include "data/tf_example.h"
#include "storage/tf_record_writer.h"

namespace paracord {
namespace {

constexpr uint64_t kFileBytes = 48 << 20;
// A limit that leaves 8 bytes of index for each record.
constexpr uint64_t kMemoryBytes = 16 << 20;

// Returns the process's memory that is not backed by files.
uint64_t MemoryBytes() {
  std::ifstream status("/proc/self/status");
  uint64_t kilobytes = 0;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("RssAnon:")) continue;
    for (const char c : line) {
      if (c >= '0' && c <= '9') kilobytes = 10 * kilobytes + static_cast<uint64_t>(c - '0');
    }
  }
  return kilobytes << 10;
}

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "paracord-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Reads the first input of records all over the data. Returns the last one.
std::vector<float> ReadFar(const DataSpec& spec, uint64_t& records) {
  PosixFiles files;
  const uint64_t before = MemoryBytes();
  REQUIRE(before > 0);
  const auto source = OpenDataSource(files, spec);
  INFO(source.status());
  REQUIRE(source.ok());
  records = (*source)->records();
  Batch batch;
  std::vector<float> last;
  for (uint64_t part = 1; part <= 16; ++part) {
    const std::array<uint64_t, 2> some = {records * (part - 1) / 16, records * part / 16 - 1};
    REQUIRE((*source)->Read(some, batch).ok());
    const std::vector<float>& values = batch.inputs[0].values;
    last.assign(values.begin() + static_cast<long>(values.size() / 2), values.end());
  }
  const uint64_t after = MemoryBytes();
  CHECK(after < before + kMemoryBytes);
  return last;
}

TEST_CASE("an npy file larger than what is held stays on the disk") {
  const Folder folder;
  constexpr uint64_t kColumns = 1 << 14, kRecords = kHeldBytesMax / kColumns / 4 + 5;
  const std::string dict = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (",
                                        kRecords, ", ", kColumns, "), }\n");
  const std::string header =
      std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size()) + '\0' + dict;
  {
    std::ofstream file(folder / "x.npy", std::ios::binary);
    file << header;
    const float end = 42;  // a hole of zeros precedes it
    file.seekp(static_cast<long>(header.size() + kRecords * kColumns * 4 - 4));
    file.write(reinterpret_cast<const char*>(&end), 4);
  }
  uint64_t records = 0;
  const std::vector<float> last =
      ReadFar({"npy", {{"features", folder / "x.npy"}, {"labels", folder / "x.npy"}}}, records);
  CHECK(records == kRecords);
  CHECK(last.front() == 0);
  CHECK(last.back() == 42);
}

TEST_CASE("of a csv file only where its rows lie is held") {
  const Folder folder;
  uint64_t rows = 0;
  const std::string rest(50, '-');
  {
    std::ofstream file(folder / "x.csv");
    file << "a,b,y,rest\n";
    for (uint64_t bytes = 0; bytes < kFileBytes; ++rows) {
      const std::string row = absl::StrCat(rows, ",", rows % 7, ".25,1,", rest, "\n");
      file << row;
      bytes += row.size();
    }
  }
  uint64_t records = 0;
  const std::vector<float> last = ReadFar(
      {"csv", {{"files", folder / "x.csv"}, {"features", {"a", "b"}}, {"label", "y"}}}, records);
  CHECK(records == rows);
  CHECK(last == std::vector<float>{static_cast<float>(rows - 1),
                                   static_cast<float>((rows - 1) % 7) + 0.25f});
}

TEST_CASE("of a TFRecord file only where its records lie is held") {
  const Folder folder;
  uint64_t written = 0;
  {
    PosixFiles files;
    auto file = files.Create(folder / "x.tfrecord");
    REQUIRE(file.ok());
    TfRecordWriter writer(**file);
    for (uint64_t bytes = 0; bytes < kFileBytes; ++written) {
      const std::array<float, 20> x = {static_cast<float>(written), 0.5f, 2};
      const std::array<float, 1> y = {1};
      ExampleBuilder builder;
      builder.Floats("x", x);
      builder.Floats("y", y);
      const std::string example = builder.Take();
      REQUIRE(writer.Append(example).ok());
      bytes += example.size() + 16;
    }
  }
  const nlohmann::json feature = {{"name", "x"}, {"shape", nlohmann::json::array({20U})}};
  const nlohmann::json x = nlohmann::json::array({feature});
  uint64_t records = 0;
  const std::vector<float> last = ReadFar(
      {"tfrecord", {{"files", folder / "x.tfrecord"}, {"features", x}, {"label", "y"}}}, records);
  CHECK(records == written);
  CHECK(last.size() == 20);
  CHECK(last[0] == static_cast<float>(written - 1));
}

TEST_CASE("of a text only where its windows lie is held") {
  const Folder folder;
  {
    std::ofstream file(folder / "x.txt");
    for (uint64_t line = 0; line < kFileBytes / 16; ++line) file << "fifteen letters\n";
  }
  uint64_t records = 0;
  const std::vector<float> last = ReadFar(
      {"text",
       {{"files", folder / "x.txt"}, {"unit", "character"}, {"window", 256U}, {"stride", 256U}}},
      records);
  CHECK(records == kFileBytes / 256 - 1);
  CHECK(last.size() == 256);
}

}  // namespace
}  // namespace paracord
