// Integers that float32 cannot tell apart reach the batch unchanged from every format.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <set>

#include "common/fingerprint64.h"
#include "common/json_text.h"
#include "data/example_writer.h"
#include "data/held_integers.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "data/tf_example.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Exact = std::vector<ExactInteger>;

constexpr int64_t kLarge = (int64_t{1} << 24) + 1, kHuge = (int64_t{1} << 62) + 3;

OpenedSource OpenExact(Files& files, const std::string& format, const json& options) {
  return OpenDataSource(files, {format, JsonOf(TextOf(options))});
}

template <class T>
std::string Npy(const std::string& descr, const std::string& shape, const std::vector<T>& values,
                bool fortran = false) {
  const std::string dict = "{'descr': '" + descr +
                           "', 'fortran_order': " + (fortran ? "True" : "False") +
                           ", 'shape': " + shape + ", }\n";
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  file += static_cast<char>(dict.size());
  file += '\0';
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return file + dict + bytes;
}

TEST_CASE("a column's whole numbers are returned, or the first value that has no certain one") {
  Column column{"", {2}, {1.5f, -3, 16777216, 0}};
  column.exact = {{2, kLarge}};
  std::vector<int64_t> whole;
  CHECK_FALSE(WholeNumbers(column, whole).has_value());
  CHECK(whole == std::vector<int64_t>{1, -3, kLarge, 0});
  column.exact.clear();
  CHECK(WholeNumbers(column, whole) == size_t{2});
  column.values = {0, NAN};
  CHECK(WholeNumbers(column, whole) == size_t{1});
}

TEST_CASE("csv has whole numbers exactly, however they are written") {
  MemoryFiles files;
  files.contents["/d"] =
      "a,b,y\n16777217,5,1\n 4611686018427387907 ,+16777217,2\n-20000001.0,20000000.5,3\n"
      "18446744073709551615,16777216,4\n18446744073709551616,-9223372036854775809,5\n";
  const auto source =
      OpenExact(files, "csv", {{"files", "/d"}, {"features", {"a", "b"}}, {"label", "y"}});
  const Batch batch = ReadAllRecords(source);
  // Fractions and numbers beyond 64 bits are not exact. Numbers between int64 and uint64 keep their
  // 64 bits.
  CHECK(batch.inputs[0].exact ==
        Exact{{0, kLarge}, {2, kHuge}, {3, kLarge}, {4, -20000001}, {6, -1}, {7, 16777216}});
  CHECK(batch.inputs[0].values[0] == 16777216);
  CHECK(batch.targets[0].exact.empty());
  const auto scaled =
      OpenExact(files, "csv",
                {{"files", "/d"}, {"features", {{{"column", "a"}, {"mean", 1}}}}, {"label", "y"}});
  CHECK(ReadAllRecords(scaled).inputs[0].exact.empty());
}

TEST_CASE("csv has bins beyond 2^24") {
  MemoryFiles files;
  files.contents["/d"] = "a,b,y\nx,y,1\n";
  const uint64_t bins = uint64_t{1} << 61;
  const Batch batch =
      ReadAllRecords(OpenExact(files, "csv",
                               {{"files", "/d"},
                                {"features",
                                 {{{"column", "a"}, {"kind", "hashed"}, {"bins", bins}},
                                  {{"columns", {"a", "b"}}, {"kind", "crossed"}, {"bins", bins}}}},
                                {"label", "y"}}));
  REQUIRE(batch.inputs[0].exact.size() == 2);
  CHECK(batch.inputs[0].exact[0].value > int64_t{1} << 24);
  CHECK(static_cast<float>(batch.inputs[0].exact[1].value) == batch.inputs[0].values[1]);
}

TEST_CASE("arrays have whole numbers exactly, of every type and order, in any batch") {
  const std::vector<int64_t> ids = {1, kLarge, -kLarge, kHuge, 16777216, 7};
  MemoryFiles files;
  files.contents["/x"] = Npy("<i8", "(3, 2)", ids);
  files.contents["/fortran"] =
      Npy("<i8", "(3, 2)", std::vector<int64_t>{1, -kLarge, 16777216, kLarge, kHuge, 7}, true);
  files.contents["/y"] = Npy("<f4", "(3,)", std::vector<float>{0, 1, 2});
  for (const std::string name : {"/x", "/fortran"}) {
    INFO(name);
    const auto source = OpenExact(files, "npy", {{"features", name}, {"labels", "/y"}});
    CHECK(ReadAllRecords(source).inputs[0].exact ==
          Exact{{1, kLarge}, {2, -kLarge}, {3, kHuge}, {4, 16777216}});
    Batch batch;
    REQUIRE((*source)->Read(std::vector<uint64_t>{2, 1}, batch).ok());
    CHECK(batch.inputs[0].exact == Exact{{0, 16777216}, {2, -kLarge}, {3, kHuge}});
    REQUIRE((*source)->Read(std::vector<uint64_t>{0}, batch).ok());
    CHECK(batch.inputs[0].exact == Exact{{1, kLarge}});
  }
  files.contents["/u8"] = Npy("<u8", "(3,)", std::vector<uint64_t>{UINT64_MAX, 1u << 31, 3});
  files.contents["/f8"] = Npy("<f8", "(3,)", std::vector<double>{16777217, 16777217.5, 1e300});
  files.contents["/f4"] = Npy("<f4", "(3,)", std::vector<float>{16777216, 3, 1e9f});
  const auto exact = [&](const std::string& name) {
    return ReadAllRecords(OpenExact(files, "npy", {{"features", name}, {"labels", "/y"}}))
        .inputs[0]
        .exact;
  };
  CHECK(exact("/u8") == Exact{{0, -1}, {1, int64_t{1} << 31}});  // keeps its 64 bits
  CHECK(exact("/f8") == Exact{{0, kLarge}});
  CHECK(exact("/f4").empty());
}

TEST_CASE("numbers that are held keep all their digits in as few bytes as they need") {
  HeldIntegers held;
  const auto append = [&](const std::vector<int64_t>& values) {
    held.Append(ElementType::kI64,
                {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)},
                /*big_endian=*/false);
  };
  held.Reserve(4);
  CHECK(held.empty());
  append({0, 4294967295});
  CHECK(held.bytes_an_element() == 4);
  append({-7, kHuge});
  CHECK(held.bytes_an_element() == 8);
  append({5});
  std::vector<int64_t> values;
  for (size_t i = 0; i < 5; ++i) values.push_back(held.at(i));
  CHECK(values == std::vector<int64_t>{0, 4294967295, -7, kHuge, 5});

  HeldIntegers signed_numbers;
  const std::vector<int32_t> both{-1, INT32_MIN, 7};
  signed_numbers.Append(ElementType::kI32,
                        {reinterpret_cast<const char*>(both.data()), both.size() * 4}, false);
  CHECK(signed_numbers.bytes_an_element() == 4);
  for (size_t i = 0; i < both.size(); ++i) CHECK(signed_numbers.at(i) == both[i]);
}

TEST_CASE("csv has ids of 64 bits: decimal ones as they are, and fingerprints of other texts") {
  MemoryFiles files;
  files.contents["/d"] =
      "a,y\n20000001,1\n-20000001,1\n18446744073709551615,1\n007,1\n68fd1e64,1\n,1\n7,1\n"
      "7.0,1\n-12.00,1\n20000001.0,1\n7.5,1\n7.,1\n.0,1\n";
  const auto ids = [&](const json& feature) {
    const Batch batch = ReadAllRecords(
        OpenExact(files, "csv", {{"files", "/d"}, {"features", {feature}}, {"label", "y"}}));
    std::vector<int64_t> whole;
    REQUIRE_FALSE(WholeNumbers(batch.inputs[0], whole).has_value());
    return whole;
  };
  const auto print = [](std::string_view text) {
    return static_cast<int64_t>(Fingerprint64(text));
  };
  json feature = {{"column", "a"}, {"kind", "id"}, {"default", 0}};
  // A number in an unusual spelling is text: 007 is not 7. But 7.0 is 7, because pandas writes ids
  // so if a column lacks some.
  CHECK(ids(feature) == std::vector<int64_t>{20000001, -20000001, -1, print("007"),
                                             print("68fd1e64"), 0, 7, 7, -12, 20000001,
                                             print("7.5"), print("7."), print(".0")});
  feature["hash"] = true;
  feature["default"] = "none";
  CHECK(ids(feature) == std::vector<int64_t>{print("20000001"), print("-20000001"),
                                             print("18446744073709551615"), print("007"),
                                             print("68fd1e64"), print("none"), print("7"),
                                             print("7.0"), print("-12.00"), print("20000001.0"),
                                             print("7.5"), print("7."), print(".0")});
}

TEST_CASE("Criteo's format is read as a csv entry says") {
  MemoryFiles files;
  std::string first = "0\t1\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2";
  std::string second = "1\t\t-1\t\t\t102\t8\t2\t2\t4\t1\t1\t\t4";
  for (int i = 0; i < 26; ++i) {
    first += "\t68fd1e6" + std::to_string(i % 10);
    second += i == 25 ? "\t" : "\t287e684" + std::to_string(i % 10);
  }
  files.contents["/day_0"] = first + "\n" + second + "\n";
  json features = json::array();
  for (int i = 1; i <= 13; ++i) {
    features.push_back({{"column", i}, {"default", 0}, {"log", true}, {"input", "numbers"}});
  }
  for (int i = 14; i <= 39; ++i) {
    features.push_back({{"column", i}, {"kind", "id"}, {"default", ""}, {"input", "words"}});
  }
  const Batch batch = ReadAllRecords(OpenExact(files, "csv",
                                               {{"files", "/day_0"},
                                                {"header", false},
                                                {"delimiter", "\t"},
                                                {"features", features},
                                                {"label", 0}}));
  REQUIRE(batch.examples == 2);
  CHECK(batch.targets[0].values == std::vector<float>{0, 1});
  REQUIRE(batch.inputs.size() == 2);
  CHECK(batch.inputs[0].shape == std::vector<uint64_t>{13});
  CHECK(batch.inputs[0].values[4] == static_cast<float>(std::log1p(1382.0)));
  CHECK(batch.inputs[0].values[11] == 0);
  CHECK(batch.inputs[0].values[14] ==
        -static_cast<float>(std::log1p(1.0)));  // the input is -1, and the sign stays
  CHECK(batch.inputs[1].shape == std::vector<uint64_t>{26});
  std::vector<int64_t> words;
  REQUIRE_FALSE(WholeNumbers(batch.inputs[1], words).has_value());
  CHECK(words[0] == static_cast<int64_t>(Fingerprint64("68fd1e60")));
  CHECK(words[26 + 24] == static_cast<int64_t>(Fingerprint64("287e6844")));
  CHECK(words[26 + 25] == static_cast<int64_t>(Fingerprint64("")));
}

std::string Example(const std::vector<int64_t>& ids) {
  ExampleBuilder builder;
  builder.Ints("id", ids);
  builder.Floats("y", std::vector<float>{1});
  return builder.Take();
}

TEST_CASE("tfrecords have whole numbers exactly, but for scaled ones, and mixes keep them") {
  MemoryFiles files;
  files.contents["/a"] = Container({Example({1, kLarge}), Example({kHuge, 2})});
  files.contents["/b"] = Container({Example({3, 4}), Example({-kLarge, 5})});
  const auto options = [](const std::string& path, double scale) -> json {
    return {{"format", "tfrecord"},
            {"files", path},
            {"features", {{{"name", "id"}, {"shape", {2}}, {"scale", scale}}}},
            {"label", "y"}};
  };
  json plain = options("/a", 1);
  plain.erase("format");
  CHECK(ReadAllRecords(OpenExact(files, "tfrecord", plain)).inputs[0].exact ==
        Exact{{1, kLarge}, {2, kHuge}});
  json scaled = options("/a", 0.5);
  scaled.erase("format");
  CHECK(ReadAllRecords(OpenExact(files, "tfrecord", scaled)).inputs[0].exact.empty());

  const auto mix = OpenExact(files, "mix", {{"mix", {options("/a", 1), options("/b", 1)}}});
  const Batch batch = ReadAllRecords(mix);
  std::vector<int64_t> whole;
  REQUIRE_FALSE(WholeNumbers(batch.inputs[0], whole).has_value());
  std::ranges::sort(whole);
  CHECK(whole == std::vector<int64_t>{-kLarge, 1, 2, 3, 4, 5, kLarge, kHuge});
}

TEST_CASE("whole numbers that float32 lacks are written as integers, and then all of the column") {
  MemoryFiles files;
  files.contents["/d"] = "a,b,y\n1,0.5,1\n16777217,2,2\n";
  const auto source = OpenExact(
      files, "csv",
      {{"files", "/d"},
       {"features", {{{"column", "a"}, {"input", "a"}}, {{"column", "b"}, {"input", "b"}}}},
       {"label", "y"}});
  REQUIRE(source.ok());
  std::set<std::string> whole;
  StringFile first, second;
  TfRecordWriter first_writer(first), second_writer(second);
  CHECK_FALSE(*WriteExamples(**source, whole, first_writer));
  CHECK(whole == std::set<std::string>{"a"});
  CHECK(*WriteExamples(**source, whole, second_writer));
  files.contents["/t"] = second.bytes;
  json spec = *ExamplesSpec((*source)->schema(), "/t");
  spec.erase("format");
  const Batch batch = ReadAllRecords(OpenExact(files, "tfrecord", spec));
  CHECK(batch.inputs[0].exact == Exact{{1, kLarge}});
  CHECK(batch.inputs[1].values == std::vector<float>{0.5, 2});

  files.contents["/d"] = "a,b,y\n16777217,1,1\n1.5,2,2\n";
  const auto broken = OpenExact(files, "csv", {{"files", "/d"}, {"features", "a"}, {"label", "y"}});
  StringFile third;
  TfRecordWriter third_writer(third);
  whole = {""};
  const auto refused = WriteExamples(**broken, whole, third_writer);
  CHECK(refused.status().message().find("/d row 1: input \"\" is 1.5 here") != std::string::npos);
}

}  // namespace
}  // namespace paracord
