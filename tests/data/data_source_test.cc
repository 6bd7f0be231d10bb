#include "data/data_source.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>

#include "data/memory_files.h"
#include "data/packing.h"

namespace paracord {
namespace {

using nlohmann::json;

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string Idx(char type, const std::vector<uint32_t>& shape, const std::string& elements) {
  std::string file{0, 0, type, static_cast<char>(shape.size())};
  for (const uint32_t dim : shape) file += BigEndian(dim);
  return file + elements;
}

// Returns `count` bytes that count up from `first`.
std::string CountingBytes(size_t count, int first = 0) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(static_cast<size_t>(first) + i);
  return bytes;
}

std::string Npy(const std::string& descr, const std::string& shape, const std::string& elements,
                int version = 1, const std::string& order = "False") {
  const std::string quote = descr.starts_with("[") ? "" : "'";
  const std::string dict = "{'descr': " + quote + descr + quote + ", 'fortran_order': " + order +
                           ", 'shape': " + shape + ", }\n";
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  file += static_cast<char>(dict.size());
  file += '\0';
  if (version > 1) file += std::string(2, '\0');
  return file + dict + elements;
}

template <class T>
std::string Elements(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

DataSpec Spec(const std::string& format, json options) { return {format, std::move(options)}; }

DataSpec IdxSpec() { return Spec("idx", {{"features", "/x"}, {"labels", "/y"}}); }

TEST_CASE("large records are looked at one by one, whatever sizes the job declares") {
  class Large : public DataSource {
   public:
    explicit Large(uint64_t size) { schema_.inputs = {{"", {size, 4}, {}}}; }
    uint64_t records() const override { return 20; }
    std::string fingerprint() const override { return ""; }
    const Batch& schema() const override { return schema_; }
    absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
      most = std::max(most, records.size());
      batch.examples = static_cast<uint32_t>(records.size());
      return absl::OkStatus();
    }
    std::string Where(uint64_t) const override { return ""; }
    mutable size_t most = 0;

   private:
    Batch schema_;
  };
  for (const auto& [size, most] : {std::pair(uint64_t{4}, 16), std::pair(uint64_t{60'000}, 4),
                                   std::pair(uint64_t{1} << 26, 1)}) {
    const Large source(size);
    REQUIRE(CheckFirstValues(source).ok());
    CHECK(source.most == static_cast<size_t>(most));
  }
}

TEST_CASE(
    "numbers that are not finite are found among the first records, of every kind of column") {
  const auto check = [](const std::string& key, size_t at) {
    MemoryFiles files;
    for (const std::string name : {"features", "labels", "weights"}) {
      std::vector<float> values(1200, 1);
      if (name == key) values[at] = std::nanf("");
      files.contents["/" + name] = Npy("<f4", "(1200,)", Elements(values));
    }
    const auto source = OpenDataSource(
        files,
        Spec("npy", {{"features", "/features"}, {"labels", "/labels"}, {"weights", "/weights"}}));
    REQUIRE(source.ok());  // training would reject the batch and go on
    return std::string(CheckFirstValues(**source).message());
  };
  CHECK(check("features", 0) == "/features row 0, /labels row 0, /weights row 0: input is nan");
  CHECK(check("labels", 17) == "/features row 17, /labels row 17, /weights row 17: target is nan");
  CHECK(check("weights", 999) ==
        "/features row 999, /labels row 999, /weights row 999: weight is nan");
  CHECK(check("labels", 1100).empty());  // only a bounded share is checked
  CHECK(check("none", 0).empty());
}

TEST_CASE("idx files give their records, scaled, packed or not, from several files") {
  MemoryFiles files;
  files.contents["/d/x-1.gz"] = Gzip(Idx(8, {2, 2, 3}, CountingBytes(12)));
  files.contents["/d/x-2.gz"] = Idx(8, {1, 2, 3}, CountingBytes(6, 100));
  files.contents["/d/y"] = Idx(8, {3}, "\x05\x06\x07");
  const auto source = OpenDataSource(
      files, Spec("idx", {{"features", "/d/x-*.gz"}, {"labels", {"/d/y"}}, {"scale", 0.5}}));
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->records() == 3);
  CHECK((*source)->schema().inputs[0].shape == std::vector<uint64_t>{2, 3});
  CHECK((*source)->schema().targets[0].shape.empty());
  Batch batch;
  REQUIRE((*source)->Read(std::vector<uint64_t>{2, 0}, batch).ok());
  CHECK(batch.examples == 2);
  CHECK(batch.inputs[0].values ==
        std::vector<float>{50, 50.5, 51, 51.5, 52, 52.5, 0, 0.5, 1, 1.5, 2, 2.5});
  CHECK(batch.targets[0].values == std::vector<float>{7, 5});
  CHECK((*source)->Where(2) == "/d/x-2.gz row 0, /d/y row 2");
  CHECK_FALSE((*source)->Read(std::vector<uint64_t>{3}, batch).ok());
}

TEST_CASE(
    "a pattern matches only files that exist, and fails at a directory that cannot be listed") {
  class SomeUnreadable : public MemoryFiles {
   public:
    std::string unreadable;
    absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
      if (path == unreadable) return absl::PermissionDeniedError("cannot list " + path);
      return MemoryFiles::List(path);
    }
  };
  SomeUnreadable files;
  for (const char* path : {"/d/1/x", "/d/2/x"}) files.contents[path] = Idx(8, {2}, "\1\2");
  files.contents["/d/3/other"] = files.contents["/d/README"] = "hello";
  files.contents["/y"] = Idx(8, {4}, CountingBytes(4));
  const auto open = [&](const char* features) {
    return OpenDataSource(files, Spec("idx", {{"features", features}, {"labels", "/y"}}));
  };
  for (const char* features : {"/d/*/x", "/d/*/[x]"}) {
    const auto source = open(features);
    INFO(features << ": " << source.status());
    REQUIRE(source.ok());
    CHECK((*source)->Where(2) == "/d/2/x row 0, /y row 2");
  }
  CHECK(open("/d/*/z").status().message() == "no file matches /d/*/z");
  for (const char* unreadable : {"/d/", "/d/2/"}) {
    files.unreadable = unreadable;
    CHECK(open("/d/*/[x]").status().message() == "cannot list " + files.unreadable);
  }
}

TEST_CASE("a file of several gzip members is one file") {
  MemoryFiles files;
  const std::string whole = Idx(8, {4, 2}, CountingBytes(8));
  files.contents["/x"] = Gzip(whole.substr(0, 9)) + Gzip(whole.substr(9));
  files.contents["/y"] = Idx(8, {4}, CountingBytes(4));
  CHECK(OpenDataSource(files, IdxSpec()).ok());
}

TEST_CASE("fingerprints tell other contents, orders and cuts apart") {
  const auto fingerprint = [](std::map<std::string, std::string> contents) {
    MemoryFiles files;
    files.contents = std::move(contents);
    files.contents["/y"] = Idx(8, {4}, CountingBytes(4));
    const auto source = OpenDataSource(files, Spec("idx", {{"features", "/x*"}, {"labels", "/y"}}));
    REQUIRE(source.ok());
    return (*source)->fingerprint();
  };
  const std::string a = Idx(8, {2, 2}, CountingBytes(4)), b = Idx(8, {2, 2}, CountingBytes(4, 50));
  const std::string base = fingerprint({{"/x1", a}, {"/x2", b}});
  CHECK(fingerprint({{"/x1", a}, {"/x2", b}}) == base);
  CHECK(fingerprint({{"/x3", a}, {"/x4", b}}) == base);  // file names may differ between machines
  CHECK(fingerprint({{"/x1", b}, {"/x2", a}}) != base);
  CHECK(fingerprint({{"/x1", a}, {"/x2", a}}) != base);
  CHECK(fingerprint({{"/x", Idx(8, {4, 2}, CountingBytes(4) + CountingBytes(4, 50))}}) != base);
}

TEST_CASE("npy files of every supported type and version give floats") {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"|u1", Elements<uint8_t>({1, 2, 3, 4, 5, 6})},
      {"<i4", Elements<int32_t>({1, 2, 3, 4, 5, 6})},
      {"<i8", Elements<int64_t>({1, 2, 3, 4, 5, 6})},
      {"<f4", Elements<float>({1, 2, 3, 4, 5, 6})},
      {"<f8", Elements<double>({1, 2, 3, 4, 5, 6})}};
  for (const auto& [descr, elements] : kinds) {
    for (int version : {1, 2, 3}) {
      MemoryFiles files;
      files.contents["/x"] = Npy(descr, "(3, 2)", elements, version);
      files.contents["/y"] = Npy("<i8", "(3,)", Elements<int64_t>({2, 1, -1}), version);
      const auto source =
          OpenDataSource(files, Spec("npy", {{"features", "/x"}, {"labels", "/y"}}));
      INFO(descr << " " << version << " " << source.status());
      REQUIRE(source.ok());
      Batch batch;
      REQUIRE((*source)->Read(std::vector<uint64_t>{1, 2}, batch).ok());
      CHECK(batch.inputs[0].values == std::vector<float>{3, 4, 5, 6});
      CHECK(batch.targets[0].values == std::vector<float>{1, -1});
    }
  }
}

TEST_CASE("damaged idx files are refused by name") {
  const std::string good = Idx(8, {3, 2}, CountingBytes(6));
  std::string bad_crc = Gzip(good);
  bad_crc[bad_crc.size() - 6] ^= 1;
  std::string bad_data = Gzip(good);
  bad_data[14] ^= 0x55;
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "/x: ends after 0 bytes"},
      {"\x1f", "/x: ends after"},
      {"hello world", "/x: is not an IDX file"},
      {Idx(7, {3, 2}, CountingBytes(6)), "/x: is not an IDX file"},
      {Idx(8, {}, ""), "/x: is not an IDX file"},
      {good.substr(0, 6), "/x: ends after"},
      {good.substr(0, good.size() - 1),
       "/x: ends after 17 bytes; its header announces 18 bytes, and row 2 is the first one "
       "missing of the 3"},
      {good.substr(0, 12), "/x: ends after 12 bytes; its header announces"},
      {Idx(8, {100000, 2}, CountingBytes(2 * 70000)),
       "row 70000 is the first one missing of the 100000"},
      {Idx(12, {3}, BigEndian(1) + BigEndian(2) + "x"), "row 2 is the first one missing of the 3"},
      {good + "z", "/x: goes on after"},
      {Idx(8, {0xffffffff, 0xffffffff}, "abc"), "/x: its header announces"},
      {Idx(8, {0xffffffff, 28, 28}, "abc"), "/x: ends after"},
      {Idx(8, {3, 0}, ""), "/x: its records are empty"},
      {Idx(8, {0, 2}, ""), "/x has 0 records, but /y has 3"},
      {Idx(8, {2, 2}, CountingBytes(4)), "/x has 2 records, but /y has 3"},
      {Gzip(good).substr(0, 20), "/x: the gzip data ends too early"},
      {Gzip(good.substr(0, good.size() - 3)), "row 1 is the first one missing of the 3"},
      {Gzip(good + "z"), "/x: goes on after"},
      {Gzip(good) + "z", "/x: the gzip data"},
      {bad_crc, "/x: the gzip data is damaged"},
      {bad_data, "/x: the gzip data is damaged"},
  };
  for (const auto& [bytes, message] : table) {
    MemoryFiles files;
    files.contents["/x"] = bytes;
    files.contents["/y"] = Idx(8, {3}, CountingBytes(3));
    const auto source = OpenDataSource(files, IdxSpec());
    INFO(message << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(std::string(source.status().message()).find(message) != std::string::npos);
  }
}

TEST_CASE("npy files of any numbers, order of bytes and order of axes are read") {
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, std::vector<float>>> table = {
      {Npy("|b1", "(2, 2)", "\0\1\1\0"s), {0, 1, 1, 0}},
      {Npy(">f4", "(1, 1)", "\x3f\xc0\0\0"s), {1.5f}},
      {Npy(">i2", "(2,)", "\xff\xfe\1\0"s), {-2, 256}},
      {Npy("<u2", "(1, 2)", "\xff\xff\1\0"s), {65535, 1}},
      {Npy("<u8", "(1,)", Elements<uint64_t>({7})), {7}},
      {Npy("<f2", "(6,)", Elements<uint16_t>({0x3c00, 0xc100, 0x7bff, 0x0001, 0x8000, 0x3555})),
       {1, -2.5f, 65504, 5.9604645e-8f, 0, 0.33325195f}},
      {Npy("<f4", "(2, 3)", Elements<float>({0, 3, 1, 4, 2, 5}), 1, "True"), {0, 1, 2, 3, 4, 5}},
      {Npy("|u1", "(2, 2, 2)", "\0\4\2\6\1\5\3\7"s, 1, "True"), {0, 1, 2, 3, 4, 5, 6, 7}},
      {Npy("<i4", "(2,)", Elements<int32_t>({5, 6}), 1, "True"), {5, 6}},
  };
  for (const auto& [bytes, values] : table) {
    INFO(bytes);
    MemoryFiles files;
    files.contents["/x"] = bytes;
    files.contents["/y"] = bytes;
    const auto source = OpenDataSource(files, Spec("npy", {{"features", "/x"}, {"labels", "/y"}}));
    INFO(source.status());
    REQUIRE(source.ok());
    std::vector<uint64_t> all((*source)->records());
    std::iota(all.begin(), all.end(), uint64_t{0});
    Batch batch;
    REQUIRE((*source)->Read(all, batch).ok());
    CHECK(batch.inputs[0].values == values);
  }
}

TEST_CASE("damaged npy files are refused by name") {
  const std::string six = Elements<float>({1, 2, 3, 4, 5, 6});
  const std::string good = Npy("<f4", "(3, 2)", six);
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "/x: ends after"},
      {"not numpy at all", "/x: is not a .npy file"},
      {Npy("<f4", "(3, 2)", six, 4), "/x: npy version 4 is not supported"},
      {Npy("<f4", "(3, 2)", six.substr(1), 1, "True"),
       "and row 0 is the first one missing of the 3"},
      {Npy("f", "(3, 2)", six), "/x: elements of type f are not supported"},
      {Npy("", "(3, 2)", six), "/x: elements of type  are not supported"},
      {Npy("<c8", "(3, 2)", six), "/x: elements of type <c8 are not supported"},
      {Npy("|O", "(3, 2)", six), "/x: holds objects of Python"},
      {Npy("[('a', '<f4'), ('b', '<f4')]", "(3,)", six), "/x: holds records of several fields"},
      {Npy("<f4", "()", six), "/x: has no axis of records"},
      {Npy("<f4", "(3, -2)", six), "/x: has a header that is not numpy's"},
      {Npy("<f4", "(3, 99999999999999999999999)", six), "/x: has a header that is not numpy's"},
      {Npy("<f4", "(300000000000000, 2)", six), "/x: its header announces"},
      {Npy("<f4", "(3, 1000000000)", six), "/x: ends after"},
      {good.substr(0, 30), "/x: ends after"},
      {good.substr(0, good.size() - 3), "and row 2 is the first one missing of the 3"},
      {good.substr(0, good.size() - 8), "and row 2 is the first one missing of the 3"},
      {good.substr(0, good.size() - 9), "and row 1 is the first one missing of the 3"},
      {good + "more", "/x: goes on after"},
  };
  for (const auto& [bytes, message] : table) {
    MemoryFiles files;
    files.contents["/x"] = bytes;
    files.contents["/y"] = Npy("|u1", "(3,)", CountingBytes(3));
    const auto source = OpenDataSource(files, Spec("npy", {{"features", "/x"}, {"labels", "/y"}}));
    INFO(message << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(std::string(source.status().message()).find(message) != std::string::npos);
  }
}

TEST_CASE("wrong options of the data are refused by key") {
  MemoryFiles files;
  files.contents["/x"] = Idx(8, {3, 2}, CountingBytes(6));
  files.contents["/x2"] = Idx(8, {3, 3}, CountingBytes(9));
  files.contents["/y"] = Idx(8, {3}, CountingBytes(3));
  const std::vector<std::tuple<std::string, json, std::string>> table = {
      {"idz", json::object(), "data format \"idz\" is not supported (did you mean \"idx\"?)"},
      {"idx", {{"features", "/x"}}, "labels"},
      {"idx", {{"features", 3}, {"labels", "/y"}}, "features"},
      {"idx", {{"features", "/x"}, {"labels", "/y"}, {"scael", 1}}, "`scale`"},
      {"idx", {{"features", "/x"}, {"labels", "/y"}, {"scale", "1"}}, "scale"},
      {"npy", {{"features", "/x"}, {"labels", "/y"}, {"scale", 1}}, "scale"},
      {"idx", {{"features", "/nothing"}, {"labels", "/y"}}, "/nothing"},
      {"idx", {{"features", "/n*g"}, {"labels", "/y"}}, "no file matches /n*g"},
      {"idx", {{"features", "/x*"}, {"labels", "/y"}}, "/x2: records of shape (3)"},
  };
  for (const auto& [format, options, message] : table) {
    const auto source = OpenDataSource(files, Spec(format, options));
    INFO(message << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(std::string(source.status().message()).find(message) != std::string::npos);
  }
}

}  // namespace
}  // namespace paracord
