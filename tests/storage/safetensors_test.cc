#include "storage/safetensors.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "storage/crc32c.h"
#include "tests/fakes.h"
#include "tests/sanitized.h"

namespace paracord {
namespace {

std::string WithLength(const std::string& header, const std::string& data = "") {
  std::string bytes(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + data;
}

TEST_CASE("the checksum is CRC-32C") {
  CHECK(Crc32c(std::string_view("123456789")) == 0xe3069283u);
  CHECK(Crc32c(std::string_view("6789"), Crc32c(std::string_view("12345"))) == 0xe3069283u);
  const std::string text = "123456789" + std::string(100000, 'x');
  for (const size_t cut : {0u, 1u, 5u, 9u, 4096u, 100009u}) {
    const auto first = std::string_view(text).substr(0, cut);
    const auto second = std::string_view(text).substr(cut);
    CHECK(Crc32cOfBoth(Crc32c(first), Crc32c(second), second.size()) == Crc32c(text));
  }
}

TEST_CASE("a small file has these very bytes") {
  TestDirectory directory;
  PosixFiles files;
  auto writer = SafetensorsWriter::Create(
      files, directory / "a", {{.name = "w", .shape = {2, 1}}, {.name = "b", .shape = {}}},
      {{"k", "v"}});
  REQUIRE(writer.ok());
  const std::vector<float> w = {1.0f, -2.0f};
  const std::vector<float> b = {0.5f};
  REQUIRE((*writer)->Append(w).ok());
  REQUIRE((*writer)->Append(b).ok());
  REQUIRE((*writer)->Finish().ok());

  const std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"data_offsets":[8,12],"dtype":"F32","shape":[]},)"
      R"("w":{"data_offsets":[0,8],"dtype":"F32","shape":[2,1]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const std::string golden =
      WithLength(padded, std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f", 12));
  const absl::StatusOr<std::string> bytes = files.ReadWhole(directory / "a");
  REQUIRE(bytes.ok());
  CHECK(*bytes == golden);
  CHECK((*writer)->bytes() == golden.size());
  CHECK((*writer)->crc32c() == Crc32c(golden));
}

TEST_CASE("what was written is read back, whole or in part, with the writer's checksum") {
  TestDirectory directory;
  PosixFiles files;
  std::vector<float> values(1 << 19);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  auto writer = SafetensorsWriter::Create(files, directory / "a",
                                          {{.name = "x", .shape = {3}},
                                           {.name = "empty", .shape = {0, 4}},
                                           {.name = "y", .shape = {values.size()}}},
                                          {});
  REQUIRE(writer.ok());
  REQUIRE((*writer)->Append(std::span(values).first(3)).ok());
  REQUIRE((*writer)->Append(std::span(values).first(1000)).ok());
  REQUIRE((*writer)->Append(std::span(values).subspan(1000)).ok());
  REQUIRE((*writer)->Finish().ok());

  const auto file = SafetensorsFile::Open(files, directory / "a");
  REQUIRE(file.ok());
  std::vector<float> y(values.size());
  const auto read = [&](const std::vector<std::span<float>>& place) {
    return (*file)->ReadAll([&](const TensorInfo& tensor) {
      BytesPlace bytes;
      for (const std::span<float> part : place) {
        bytes.emplace_back(reinterpret_cast<char*>(part.data()), part.size_bytes());
      }
      return tensor.name == "y" ? bytes : BytesPlace();
    });
  };
  CHECK(read({std::span(y).first(7), std::span(y).subspan(7)}).value() == (*writer)->crc32c());
  CHECK(y == values);
  CHECK(read({}).value() == (*writer)->crc32c());
  CHECK(absl::IsInvalidArgument(read({std::span(y).first(7)}).status()));

  std::vector<float> part(10);
  const TensorInfo* info = (*file)->header().Find("y");
  REQUIRE(info != nullptr);
  REQUIRE((*file)->ReadElements(*info, 500, part).ok());
  CHECK(part[9] == 509.0f);
  CHECK(absl::IsOutOfRange((*file)->ReadElements(*info, values.size() - 9, part)));
  CHECK((*file)->header().Find("z") == nullptr);
}

TEST_CASE("a file that Python's library wrote is read") {
  // Written by safetensors.numpy.save_file({"k": [[0, 1]], "b": [1]}, path, metadata={"a": "b"}),
  // with its padding.
  const std::string header =
      R"({"__metadata__":{"a":"b"},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("k":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}})";
  TestDirectory directory;
  PosixFiles files;
  REQUIRE(Overwrite(files, directory / "a",
                    WithLength(header + std::string((8 - header.size() % 8) % 8, ' '),
                               std::string("\x00\x00\x80\x3f\0\0\0\0\x00\x00\x80\x3f", 12))));
  const auto file = SafetensorsFile::Open(files, directory / "a");
  REQUIRE(file.ok());
  CHECK((*file)->header().metadata.at("a") == "b");
  std::vector<float> k(2);
  REQUIRE((*file)->ReadElements(*(*file)->header().Find("k"), 0, k).ok());
  CHECK(k == std::vector<float>{0, 1});
}

TEST_CASE("a header of very many tensors is read, and one of them twice is found") {
  std::string header = "{";
  constexpr int kTensors = 50000;  // quadratic time would take minutes
  for (int i = 0; i < kTensors; ++i) {
    absl::StrAppend(&header, R"("t)", i, R"(":{"dtype":"F32","shape":[1],"data_offsets":[)", 4 * i,
                    ",", 4 * (i + 1), "]},");
  }
  const std::string last = R"("last":{"dtype":"F32","shape":[0],"data_offsets":[200000,200000]})";
  const auto parsed = ParseSafetensorsHeader(header + last + "}", 200000);
  REQUIRE(parsed.ok());
  CHECK(parsed->tensors.size() == kTensors + 1);
  CHECK(ParseSafetensorsHeader(header + last + "," + last + "}", 200000).status().message() ==
        "header: \"last\" stands twice");
  if (Sanitized()) return;  // eight million values take half a minute there
  std::string zeros = R"({"t":[0)";
  for (int i = 0; i < 8 << 20; ++i) zeros += ",0";
  CHECK(ParseSafetensorsHeader(zeros + "]}", 0).status().message() == "header: too many values");
}

TEST_CASE("a file with too few or too many bytes is never finished") {
  TestDirectory directory;
  PosixFiles files;
  auto writer =
      SafetensorsWriter::Create(files, directory / "a", {{.name = "x", .shape = {2}}}, {});
  REQUIRE(writer.ok());
  const std::vector<float> values(2);
  REQUIRE((*writer)->Append(std::span(values).first(1)).ok());
  CHECK_FALSE((*writer)->Finish().ok());
  CHECK_FALSE((*writer)->Append(values).ok());
  CHECK_FALSE(SafetensorsWriter::Create(files, directory / "b",
                                        {{.name = "x", .shape = {1}}, {.name = "x", .shape = {1}}},
                                        {})
                  .ok());
}

template <class T>
std::string Bytes(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST_CASE("numbers of any type are read as float32, from any place on") {
  struct Case {
    const char* dtype;
    std::string bytes;
    std::vector<float> values;
  };
  TestDirectory directory;
  PosixFiles files;
  for (const Case& c : {Case{"F64", Bytes<double>({1, -2.5, 1e-3}), {1, -2.5f, 1e-3f}},
                        Case{"F16", Bytes<uint16_t>({0x3c00, 0xc100, 1}), {1, -2.5f, 0x1p-24f}},
                        Case{"BF16", Bytes<uint16_t>({0x3f80, 0xc020, 0}), {1, -2.5f, 0}},
                        Case{"I64", Bytes<int64_t>({0, -3, 1 << 24}), {0, -3, 1 << 24}},
                        Case{"U64", Bytes<uint64_t>({0, 3, 1 << 24}), {0, 3, 1 << 24}},
                        Case{"I32", Bytes<int32_t>({0, -3, 7}), {0, -3, 7}},
                        Case{"U32", Bytes<uint32_t>({0, 3, 7}), {0, 3, 7}},
                        Case{"I16", Bytes<int16_t>({0, -3, 7}), {0, -3, 7}},
                        Case{"U16", Bytes<uint16_t>({0, 65535, 7}), {0, 65535, 7}},
                        Case{"I8", Bytes<int8_t>({0, -3, 7}), {0, -3, 7}},
                        Case{"U8", Bytes<uint8_t>({0, 255, 7}), {0, 255, 7}},
                        Case{"BOOL", Bytes<uint8_t>({0, 1, 1}), {0, 1, 1}}}) {
    INFO(c.dtype);
    const std::string header =
        absl::StrCat(R"({"h":{"dtype":")", c.dtype, R"(","shape":[3],"data_offsets":[0,)",
                     c.bytes.size(), "]}}");
    REQUIRE(files.WriteAtomic(directory / "a", WithLength(header, c.bytes)).ok());
    const auto file = SafetensorsFile::Open(files, directory / "a");
    REQUIRE(file.ok());
    const TensorInfo& tensor = (*file)->header().tensors[0];
    std::vector<float> all(3), last(1), beyond(2);
    REQUIRE((*file)->ReadElements(tensor, 0, all).ok());
    CHECK(all == c.values);
    REQUIRE((*file)->ReadElements(tensor, 2, last).ok());
    CHECK(last[0] == c.values[2]);
    CHECK(absl::IsOutOfRange((*file)->ReadElements(tensor, 2, beyond)));
  }
}

TEST_CASE("a long tensor of another type is read in parts") {
  TestDirectory directory;
  PosixFiles files;
  std::vector<double> values(30000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 4;
  const std::string header = R"({"h":{"dtype":"F64","shape":[30000],"data_offsets":[0,240000]}})";
  REQUIRE(files.WriteAtomic(directory / "a", WithLength(header, Bytes(values))).ok());
  const auto file = SafetensorsFile::Open(files, directory / "a");
  std::vector<float> out(29990);
  REQUIRE((*file)->ReadElements((*file)->header().tensors[0], 10, out).ok());
  CHECK(std::equal(out.begin(), out.end(), values.begin() + 10));
}

TEST_CASE("what float32 has not is refused by name") {
  TestDirectory directory;
  PosixFiles files;
  for (const auto& [dtype, bytes, part] :
       {std::tuple("C64", Bytes<float>({1, 2}), "is C64, which is no number"),
        std::tuple("I64", Bytes<int64_t>({(1 << 24) + 1}), "an integer beyond 2^24"),
        std::tuple("I64", Bytes<int64_t>({INT64_MIN}), "an integer beyond 2^24"),
        std::tuple("U64", Bytes<uint64_t>({UINT64_MAX}), "an integer beyond 2^24"),
        std::tuple("I32", Bytes<int32_t>({-(1 << 24) - 1}), "an integer beyond 2^24")}) {
    const std::string header = absl::StrCat(
        R"({"h":{"dtype":")", dtype, R"(","shape":[1],"data_offsets":[0,)", bytes.size(), "]}}");
    REQUIRE(files.WriteAtomic(directory / "a", WithLength(header, bytes)).ok());
    const auto file = SafetensorsFile::Open(files, directory / "a");
    REQUIRE(file.ok());
    std::vector<float> out(1);
    const absl::Status status = (*file)->ReadElements((*file)->header().tensors[0], 0, out);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find(part) != std::string::npos);
    CHECK(status.message().find("tensor h") != std::string::npos);
  }
}

TEST_CASE("everything that the format forbids is refused") {
  const auto tensor = [](const std::string& name, const std::string& shape, int begin, int end,
                         const std::string& dtype = "F32") {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
           ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  struct Case {
    const char* what;
    std::string header;
    uint64_t data_bytes;
  };
  const std::vector<Case> cases = {
      {"no object", "[]", 0},
      {"empty", "", 0},
      {"leading space", " {}", 0},
      {"not JSON", "{", 0},
      {"trailing text", "{} x", 0},
      {"hole at the start", "{" + tensor("a", "[1]", 4, 8) + "}", 8},
      {"hole between", "{" + tensor("a", "[1]", 0, 4) + "," + tensor("b", "[1]", 8, 12) + "}", 12},
      {"overlap", "{" + tensor("a", "[2]", 0, 8) + "," + tensor("b", "[1]", 4, 8) + "}", 8},
      {"bytes left over", "{" + tensor("a", "[1]", 0, 4) + "}", 5},
      {"beyond the end", "{" + tensor("a", "[2]", 0, 8) + "}", 4},
      {"shape and offsets differ", "{" + tensor("a", "[3]", 0, 8) + "}", 8},
      {"end before begin", "{" + tensor("a", "[1]", 4, 0) + "}", 4},
      {"negative dimension", "{" + tensor("a", "[-1]", 0, 4) + "}", 4},
      {"fractional dimension", "{" + tensor("a", "[1.0]", 0, 4) + "}", 4},
      {"overflow", "{" + tensor("a", "[4294967296,4294967296,4]", 0, 0) + "}", 0},
      {"unknown dtype", "{" + tensor("a", "[1]", 0, 4, "Q9") + "}", 4},
      {"name twice", "{" + tensor("a", "[1]", 0, 4) + "," + tensor("a", "[1]", 4, 8) + "}", 8},
      {"metadata no object", R"({"__metadata__":1})", 0},
      {"metadata no string", R"({"__metadata__":{"a":1}})", 0},
      {"tensor no object", R"({"a":1})", 0},
      {"no dtype", R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4},
      {"one offset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 0},
      {"unknown field", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4},
      {"deep", "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", 0},
      {"bad UTF-8", "{\"\xff\":1}", 0},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    CHECK(absl::IsInvalidArgument(ParseSafetensorsHeader(c.header, c.data_bytes).status()));
  }
  CHECK(ParseSafetensorsHeader("{}   ", 0).ok());
}

TEST_CASE("a torn or lying file is refused by name") {
  TestDirectory directory;
  PosixFiles files;
  const std::string good =
      WithLength(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd");
  for (size_t size = 0; size < good.size(); ++size) {
    REQUIRE(Overwrite(files, directory / "a", good.substr(0, size)));
    const absl::Status status = SafetensorsFile::Open(files, directory / "a").status();
    CHECK(absl::IsDataLoss(status));
    CHECK(status.message().find(directory / "a") != std::string::npos);
  }
  std::string lying = good;
  lying[7] = '\x7f';
  REQUIRE(files.WriteAtomic(directory / "a", lying).ok());
  CHECK(absl::IsDataLoss(SafetensorsFile::Open(files, directory / "a").status()));
  CHECK(absl::IsNotFound(SafetensorsFile::Open(files, directory / "b").status()));
}

}  // namespace
}  // namespace paracord
