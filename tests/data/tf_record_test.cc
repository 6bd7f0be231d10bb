#include "data/tf_record.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/json_text.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "data/tf_example.h"
#include "tests/data/source_testing.h"
#include "tests/golden/golden.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

const std::string kGolden = GoldenPath("examples.tfrecord");

OpenedSource OpenRecords(Files& files, const json& options) {
  return OpenDataSource(files, {"tfrecord", JsonOf(TextOf(options))});
}

std::string Example(const Values& x, int64_t y) {
  ExampleBuilder builder;
  builder.Floats("x", x);
  builder.Ints("y", std::vector<int64_t>{y});
  return builder.Take();
}

TEST_CASE("string features and exact integers go to models that take strings") {
  MemoryFiles files;
  const auto record = [](const char* city, int64_t id) {
    ExampleBuilder builder;
    if (city != nullptr) builder.Bytes("city", city);
    builder.Ints("id", std::vector<int64_t>{id, -id});
    builder.Floats("x", Values{2});
    return builder.Take();
  };
  files.contents["/t"] =
      Container({record("Oslo", int64_t{1} << 60), record(nullptr, 7), record("\xff", 0)});
  const json features = {
      {{"name", "city"}, {"dtype", "string"}, {"default", "none"}, {"input", "c"}},
      {{"name", "id"}, {"dtype", "string"}, {"shape", {2}}, {"input", "i"}},
      {{"name", "city"}, {"dtype", "string"}, {"default", ""}, {"input", "two"}},
      {{"name", "id"}, {"dtype", "string"}, {"shape", {2}}, {"input", "two"}}};
  const json options = {{"files", "/t"}, {"features", features}, {"label", "x"}};
  const Batch batch = ReadAllRecords(OpenRecords(files, options));
  using Texts = std::vector<std::string>;
  CHECK(batch.inputs[0].text);
  CHECK(batch.inputs[0].values.empty());
  CHECK(batch.inputs[0].strings == Texts{"Oslo", "none", "\xff"});
  CHECK(batch.inputs[1].shape == std::vector<uint64_t>{2});
  CHECK(batch.inputs[1].strings ==
        Texts{"1152921504606846976", "-1152921504606846976", "7", "-7", "0", "0"});
  CHECK(batch.inputs[2].strings == Texts{"Oslo", "1152921504606846976", "-1152921504606846976", "",
                                         "7", "-7", "\xff", "0", "0"});
  const auto refused = [&](json feature) {
    return std::string(OpenRecords(files, {{"files", "/t"}, {"features", feature}, {"label", "x"}})
                           .status()
                           .message());
  };
  CHECK(refused({{"name", "city"}, {"dtype", "string"}}) ==
        "/t row 1: feature \"city\": is missing, and there is no `default`");
  CHECK(refused({{"name", "id"}, {"dtype", "string"}}) ==
        "/t row 0: feature \"id\": has 2 values instead of 1");
  CHECK(refused({{"name", "x"}, {"dtype", "string"}}) ==
        "/t row 0: feature \"x\": holds neither strings nor integers");
  CHECK(refused({{"name", "city"}, {"dtype", "string"}, {"scale", 2}}).find("scale") !=
        std::string::npos);
  CHECK(refused({{{"name", "city"}, {"dtype", "string"}}, {{"name", "x"}}})
            .find("\"x\" and \"city\" are numbers and strings for one input") != std::string::npos);
  CHECK(std::string(OpenRecords(files, {{"files", "/t"},
                                        {"features", "x"},
                                        {"label", {{"name", "city"}, {"dtype", "string"}}}})
                        .status()
                        .message())
            .find("label.dtype: strings are for inputs alone") != std::string::npos);
}

TEST_CASE("a number that is not finite is found with file and record, and read all the same") {
  MemoryFiles files;
  files.contents["/t"] =
      Container({Example({1, 2}, 0), Example({3, 4}, 1), Example({5, -INFINITY}, 0)});
  const auto source = OpenRecords(
      files, {{"files", "/t"}, {"features", {{"name", "x"}, {"shape", {2}}}}, {"label", "y"}});
  CHECK(ReadAllRecords(source).examples == 3);
  CHECK(CheckFirstValues(**source).message() == "/t row 2: input is -inf");
}

TEST_CASE("files written by TensorFlow are read, plain, gzip and zlib") {
  PosixFiles files;
  for (const std::string& path : {kGolden, kGolden + ".gz", kGolden + ".zlib"}) {
    const auto source = OpenRecords(
        files, {{"files", path},
                {"features",
                 {{{"name", "x"}, {"shape", {3}}, {"input", "a"}},
                  {{"name", "image"},
                   {"shape", {2, 3}},
                   {"dtype", "uint8"},
                   {"scale", 0.5},
                   {"input", "b"}},
                  {{"name", "id"}, {"shape", {3}}, {"dtype", "int64"}, {"input", "a"}},
                  {{"name", "extra"}, {"default", -14}, {"scale", 0.5}, {"input", "c"}}}},
                {"label", "label"}});
    INFO(source.status());
    REQUIRE(source.ok());
    CHECK((*source)->records() == 5);
    Batch batch;
    REQUIRE((*source)->Read(std::vector<uint64_t>{3, 1}, batch).ok());
    REQUIRE(batch.inputs.size() == 3);
    CHECK(batch.inputs[0].shape == std::vector<uint64_t>{6});
    CHECK(batch.inputs[0].values ==
          Values{3.5, -3, 3e-3f, 3, -1, 1 << 20, 1.5, -1, 1e-3f, 1, -1, 1 << 20});
    CHECK(batch.inputs[1].shape == std::vector<uint64_t>{2, 3});
    CHECK(batch.inputs[1].values == Values{123.5, 124, 124.5, 125, 125.5, 126,  //
                                           124.5, 125, 125.5, 126, 126.5, 127});
    CHECK(batch.inputs[2].shape.empty());
    CHECK(batch.inputs[2].values == Values{-7, 1});
    CHECK(batch.targets[0].values == Values{0, 1});
    CHECK((*source)->Where(3) == path + " row 3");
  }
}

TEST_CASE("a file without a record is one, packed or not") {
  MemoryFiles files;
  files.contents = {{"/1", ""},
                    {"/2", Gzip("")},
                    {"/3", Deflate("", MAX_WBITS)},
                    {"/4", Container({Example({1, 2}, 1)})}};
  const auto source = OpenRecords(
      files, {{"files", "/*"}, {"features", {{"name", "x"}, {"shape", {2}}}}, {"label", "y"}});
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->records() == 1);
  CHECK((*source)->Where(0) == "/4 row 0");
}

TEST_CASE("a record whose length looks like zlib's start is none") {
  // The record has 0x9c78 bytes.
  ExampleBuilder builder;
  builder.Floats("x", Values{1, 2});
  builder.Ints("y", std::vector<int64_t>{1});
  const size_t before = ExampleBuilder(builder).Take().size();
  std::string example;
  for (size_t size = 0x9c78 - before - 30; example.size() < 0x9c78; ++size) {
    ExampleBuilder filled = builder;
    filled.Bytes("z", std::string(size, 'z'));
    example = filled.Take();
  }
  REQUIRE(example.size() == 0x9c78);
  MemoryFiles files;
  files.contents["/t"] = Container({example, example});
  REQUIRE(files.contents["/t"].starts_with("\x78\x9c"));
  const auto source = OpenRecords(
      files, {{"files", "/t"}, {"features", {{"name", "x"}, {"shape", {2}}}}, {"label", "y"}});
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->records() == 2);
}

TEST_CASE("the container is written as TensorFlow writes it") {
  PosixFiles files;
  const auto golden = OpenDataFile(files, kGolden);
  REQUIRE(golden.ok());
  FileCursor cursor(**golden, 0, (*golden)->size(), 100);
  std::vector<std::string> records;
  std::string_view data;
  while (*TfRecordCutter().Next(cursor, data)) records.emplace_back(data);
  CHECK(Container(records) == *files.ReadWhole(kGolden));
  CHECK(OpenDataFile(files, kGolden + ".gz").value()->size() == (*golden)->size());
}

TEST_CASE("examples come back from the builder") {
  ExampleBuilder builder;
  builder.Floats("f", std::vector<float>{1.5, -2});
  builder.Ints("i", std::vector<int64_t>{-3, 1 << 24});
  builder.Bytes("b", std::string(300, 'z'));
  const std::string example = builder.Take();
  std::vector<ExampleFeature> features;
  REQUIRE(ParseExample(example, features).ok());
  REQUIRE(features.size() == 3);
  Values two(2);
  std::vector<ExactInteger> exact;
  REQUIRE(*ReadNumbers(features[0], two, 0, exact) == 2);
  CHECK(two == Values{1.5, -2});
  REQUIRE(*ReadNumbers(features[1], two, 5, exact) == 2);
  CHECK(two == Values{-3, 1 << 24});
  CHECK(exact == std::vector<ExactInteger>{{6, 1 << 24}});
  CHECK(*ReadBytes(features[2]) == std::string(300, 'z'));
  CHECK_FALSE(ReadNumbers(features[2], two, 0, exact).ok());
  CHECK_FALSE(ReadBytes(features[0]).ok());
}

TEST_CASE("of a feature that an example has twice the last counts, as for TensorFlow") {
  MemoryFiles files;
  ExampleBuilder twice;
  twice.Floats("x", Values{1});
  twice.Floats("x", Values{9});
  twice.Ints("y", std::vector<int64_t>{3});
  // Messages of protobuf that follow each other are one.
  files.contents["/t"] = Container({twice.Take(), Example({1}, 2) + Example({8}, 4)});
  const Batch batch = ReadAllRecords(
      OpenRecords(files, {{"files", "/t"}, {"features", {{{"name", "x"}}}}, {"label", "y"}}));
  CHECK(batch.inputs[0].values == Values{9, 8});
  CHECK(batch.targets[0].values == Values{3, 4});
}

TEST_CASE("numbers that are not packed are read too") {
  // Feature "i" is an Int64List of two unpacked varints; feature "f" has one fixed32.
  const std::string ints = std::string("\x08\x05\x08\x06", 4);
  const std::string floats = std::string("\x0d\x00\x00\xc0\x3f", 5);
  std::vector<float> two(2), one(1);
  std::vector<ExactInteger> exact;
  CHECK(*ReadNumbers({"i", ExampleFeature::Kind::kInt64, ints, {}}, two, 0, exact) == 2);
  CHECK(two == Values{5, 6});
  CHECK(*ReadNumbers({"f", ExampleFeature::Kind::kFloat, floats, {}}, one, 0, exact) == 1);
  CHECK(one == Values{1.5});
}

TEST_CASE("damaged tfrecord files are refused by file and record") {
  const std::string one = Example({1, 2}, 1);
  const std::string good = Container({one, one});
  const size_t first = good.size() / 2;
  const auto flipped = [&](size_t at) {
    std::string bad = good;
    bad[at] ^= 1;
    return bad;
  };
  std::string huge = good;  // a length of 2^40 with the checksum of the old length
  huge[5] = 1;
  ExampleBuilder no_label;
  no_label.Floats("x", Values{1, 2});
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "/d: has no records"},
      {good.substr(0, 5), "/d row 0: the file ends inside the record's length"},
      {good.substr(0, first + 20), "/d row 1: the file ends inside the record"},
      {good.substr(0, good.size() - 1),
       absl::StrCat("/d row 1: the file ends inside the record, after ", good.size() - first - 1,
                    " of the ", good.size() - first, " bytes")},
      {flipped(0), "/d row 0: the checksum of the record's length is wrong"},
      {flipped(first + 9), "/d row 1: the checksum of the record's length is wrong"},
      {flipped(first + 14), "/d row 1: the checksum of the record's data is wrong"},
      {flipped(good.size() - 1), "/d row 1: the checksum of the record's data is wrong"},
      {huge, "/d row 0: the checksum of the record's length is wrong"},
      {Gzip(good).substr(0, 30), "/d: the gzip data ends too early"},
      {Deflate(good, MAX_WBITS).substr(0, 30), "/d: the zlib data ends too early"},
      {Deflate(good, MAX_WBITS) + "garbage", "/d: the zlib data is damaged"},
      {Container({one, Example({1, 2, 3}, 1)}),
       "/d row 1: feature \"x\": has 3 values instead of 2"},
      {Container({one, no_label.Take()}), "/d row 1: feature \"y\": is missing"},
      {"version https://git-lfs.github.com/spec/v1\n", "; it is a pointer of Git LFS"},
      {Container({"hello"}), "/d row 0: is not a tf.train.Example"},
      {Container({std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11)}),
       "/d row 0: is not a tf.train.Example"},
      {Container({std::string("\x0a\x7f", 2)}), "a field of 127 bytes where 0 are left"},
  };
  for (const auto& [bytes, message] : table) {
    MemoryFiles files;
    files.contents["/d"] = bytes;
    const auto source = OpenRecords(
        files, {{"files", "/d"}, {"features", {{{"name", "x"}, {"shape", {2}}}}}, {"label", "y"}});
    INFO(message << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(std::string(source.status().message()).find(message) != std::string::npos);
  }
}

TEST_CASE("wrong options of tfrecord data are refused by key, all at once") {
  MemoryFiles files;
  files.contents["/d"] = Container({Example({1, 2}, 1)});
  const RefusedOptions table = {
      {json::object(), {"files: is missing", "features: is missing", "label: is missing"}},
      {{{"files", "/d"}, {"features", {{{"nam", "x"}}}}, {"label", 3}},
       {"features[0].name: is missing", "features[0].nam: unknown key; did you mean `name`?",
        "label: must be an object, is 3"}},
      {{{"files", "/d"},
        {"features", {{{"name", "x"}, {"shape", {1 << 30}}, {"dtype", "unit8"}}}},
        {"label", "y"}},
       {"features[0].shape: must be a list of sizes", "features[0].dtype: is \"unit8\""}},
      {{{"files", "/d"},
        {"features", {{{"name", "x"}, {"shape", {2}}, {"dtype", "int64"}}}},
        {"label", "y"}},
       {"/d row 0: feature \"x\": is not of dtype int64"}},
  };
  CheckRefused(table, [&](const json& options) { return OpenRecords(files, options); });
}

// Damage anywhere gives an error or a record, but never a crash or a huge allocation.
TEST_CASE("no damage to a tfrecord gets past the checksums") {
  const std::string good = Container({Example({1, 2}, 1), Example({3, 4}, 2)});
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      MemoryFiles files;
      files.contents["/d"] = good;
      files.contents["/d"][at] = static_cast<char>(good[at] ^ (1 << bit));
      CHECK_FALSE(OpenRecords(files, {{"files", "/d"},
                                      {"features", {{{"name", "x"}, {"shape", {2}}}}},
                                      {"label", "y"}})
                      .ok());
    }
  }
}

// The records have right checksums: a writer may store arbitrary bytes.
TEST_CASE("no damage to an example is more than an error") {
  const std::string good = Example({1, 2}, 1);
  std::vector<ExampleFeature> features;
  Values out(2);
  std::vector<ExactInteger> exact;
  for (size_t at = 0; at < good.size(); ++at) {
    for (int byte = 0; byte < 256; byte += 5) {
      std::string bad = good;
      bad[at] = static_cast<char>(byte);
      if (!ParseExample(bad, features).ok()) continue;
      for (const ExampleFeature& feature : features) {
        (void)ReadNumbers(feature, out, 0, exact);
        (void)ReadBytes(feature);
      }
    }
  }
}

}  // namespace
}  // namespace paracord
