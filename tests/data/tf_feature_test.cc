// Tests features that are more than a fixed number of numbers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "absl/strings/escaping.h"
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
using Texts = std::vector<std::string>;

OpenedSource OpenFeatures(Files& files, const json& options) {
  return OpenDataSource(files, {"tfrecord", JsonOf(TextOf(options))});
}

json FeatureOptions(const json& feature) {
  return {{"files", "/t"}, {"features", json::array({feature})}, {"label", "y"}};
}

// Records with a feature "x", filled by `add` and read according to `feature`.
class Records {
 public:
  void Add(const std::function<void(ExampleBuilder&)>& add) {
    ExampleBuilder builder;
    add(builder);
    builder.Floats("y", Values{1});
    records_.push_back(builder.Take());
  }
  OpenedSource Read(const json& feature) {
    files_.contents["/t"] = Container(records_);
    return OpenFeatures(files_, FeatureOptions(feature));
  }
  std::string Refused(const json& feature) { return std::string(Read(feature).status().message()); }

 private:
  MemoryFiles files_;
  Texts records_;
};

Records Lists() {
  Records records;
  for (const std::vector<int64_t>& list :
       {std::vector<int64_t>{7, 16777217}, {1, 2, 3, 4}, {}, {5, 6, 16777219, 8, 9, 10}}) {
    records.Add([&](ExampleBuilder& builder) { builder.Ints("x", list); });
  }
  records.Add([](ExampleBuilder&) {});
  return records;
}

TEST_CASE("lists of varying length are filled up behind, and cut off where the job says") {
  Records records = Lists();
  const json feature = {{"name", "x"}, {"shape", {4}}, {"pad", -1}};
  CHECK(records.Refused(feature).find("/t row 3: feature \"x\": has 6 values, more than 4; give a "
                                      "larger `shape`, or `truncate`") != std::string::npos);
  json cut = feature;
  cut["truncate"] = "post";
  const Batch post = ReadAllRecords(records.Read(cut));
  CHECK(post.inputs[0].shape == std::vector<uint64_t>{4});
  CHECK(post.inputs[0].values == Values{7,  16777216, -1,       -1, 1,  2,  3,  4,
                                        -1, -1,       -1,       -1,  //
                                        5,  6,        16777220, 8,  -1, -1, -1, -1});
  using Exact = std::vector<ExactInteger>;
  CHECK(post.inputs[0].exact == Exact{{1, 16777217}, {14, 16777219}});
  cut["truncate"] = "pre";
  const Batch pre = ReadAllRecords(records.Read(cut));
  CHECK(Values(pre.inputs[0].values.begin() + 12, pre.inputs[0].values.begin() + 16) ==
        Values{16777220, 8, 9, 10});
  CHECK(pre.inputs[0].exact == Exact{{1, 16777217}, {12, 16777219}});
}

TEST_CASE("lists of rows are filled up with whole rows alone") {
  Records records;
  records.Add([](ExampleBuilder& builder) { builder.Floats("x", Values{1, 2}); });
  const json feature = {{"name", "x"}, {"shape", {2, 2}}, {"pad", 0}};
  CHECK(ReadAllRecords(records.Read(feature)).inputs[0].values == Values{1, 2, 0, 0});
  records.Add([](ExampleBuilder& builder) { builder.Floats("x", Values{1, 2, 3}); });
  CHECK(records.Refused(feature).find("has 3 values, no multiple of 2") != std::string::npos);
}

TEST_CASE("lists of strings are filled up, too") {
  Records records;
  records.Add([](ExampleBuilder& builder) { builder.Texts("x", Texts{"a", "b", "c"}); });
  records.Add([](ExampleBuilder& builder) { builder.Texts("x", Texts{"d"}); });
  records.Add([](ExampleBuilder&) {});
  const json feature = {
      {"name", "x"}, {"shape", {2}}, {"dtype", "string"}, {"pad", "[P]"}, {"truncate", "post"}};
  CHECK(ReadAllRecords(records.Read(feature)).inputs[0].strings ==
        Texts{"a", "b", "d", "[P]", "[P]", "[P]"});
}

TEST_CASE("a list whose shape would have to be guessed is refused with a hint") {
  Records records = Lists();
  CHECK(records.Refused({{"name", "x"}, {"shape", {4}}})
            .find("has 2 values instead of 4; `pad` fills up lists of varying length") !=
        std::string::npos);
  CHECK(records.Refused({{"name", "x"}, {"shape", {nullptr}}})
            .find("features[0].shape: has a length that is not known; give the largest one") !=
        std::string::npos);
  CHECK(records.Refused({{"name", "x"}, {"pad", 0}})
            .find("features[0].shape: must give the largest length") != std::string::npos);
  CHECK(records.Refused({{"name", "x"}, {"shape", {4}}, {"pad", "a"}}).find("features[0].pad") !=
        std::string::npos);
  CHECK(records.Refused({{"name", "x"}, {"shape", {4}}, {"truncate", "middle"}})
            .find("features[0].truncate") != std::string::npos);
}

template <class T>
std::string Raw(const std::vector<T>& values, bool swap = false) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  for (size_t at = 0; swap && at < bytes.size(); at += sizeof(T)) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + sizeof(T)));
  }
  return bytes;
}

TEST_CASE("raw bytes are numbers of the type that the job gives, as by tf.io.decode_raw") {
  struct Case {
    const char* dtype;
    std::string bytes;
    Values values;
  };
  const Case cases[] = {{"uint8", Raw<uint8_t>({0, 255}), {0, 255}},
                        {"bool", Raw<uint8_t>({0, 1}), {0, 1}},
                        {"int8", Raw<int8_t>({-1, 127}), {-1, 127}},
                        {"uint16", Raw<uint16_t>({1, 65535}), {1, 65535}},
                        {"int16", Raw<int16_t>({-2, 300}), {-2, 300}},
                        {"uint32", Raw<uint32_t>({1, 4294967295}), {1, 4294967296.0f}},
                        {"int32", Raw<int32_t>({-70000, 3}), {-70000, 3}},
                        {"uint64", Raw<uint64_t>({1, 16777217}), {1, 16777216}},
                        {"int64", Raw<int64_t>({-5, 16777217}), {-5, 16777216}},
                        {"float16", Raw<uint16_t>({0x3c00, 0xc100}), {1, -2.5}},
                        {"float", Raw<float>({1.5, -2}), {1.5, -2}},
                        {"float32", Raw<float>({1.5, -2}), {1.5, -2}},
                        {"float64", Raw<double>({0.1, -2}), {0.1f, -2}}};
  for (const Case& each : cases) {
    INFO(each.dtype);
    Records records;
    records.Add([&](ExampleBuilder& builder) { builder.Bytes("x", each.bytes); });
    const json feature = {{"name", "x"}, {"shape", {2}}, {"dtype", each.dtype}};
    CHECK(ReadAllRecords(records.Read(feature)).inputs[0].values == each.values);
    records.Add([&](ExampleBuilder& builder) { builder.Bytes("x", each.bytes + "?"); });
    CHECK(records.Refused(feature).find("/t row 1: feature \"x\": has ") != std::string::npos);
  }
  Records records;
  records.Add([](ExampleBuilder& builder) {
    builder.Bytes("x", Raw<int32_t>({1, 1 << 25}, /*swap=*/true));
  });
  const Batch batch = ReadAllRecords(
      records.Read({{"name", "x"}, {"shape", {2}}, {"dtype", "int32"}, {"big_endian", true}}));
  CHECK(batch.inputs[0].values == Values{1, 1 << 25});
  CHECK(batch.inputs[0].exact == std::vector<ExactInteger>{{1, 1 << 25}});
}

TEST_CASE("pictures in examples are decoded and resized as those of image files") {
  const json golden = GoldenJson("images.json")[0];
  std::string file;
  REQUIRE(absl::Base64Unescape(golden["file"].get<std::string>(), &file));
  Records records;
  records.Add([&](ExampleBuilder& builder) { builder.Bytes("x", file); });
  const json feature = {{"name", "x"}, {"dtype", "image"}, {"size", {5, 23}}, {"channels", 3}};
  const Batch batch = ReadAllRecords(records.Read(feature));
  CHECK(batch.inputs[0].shape == std::vector<uint64_t>{5, 23, 3});
  const auto expected = golden["resized_5_23"].get<Values>();
  REQUIRE(batch.inputs[0].values.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(batch.inputs[0].values[i] == Approx(expected[i]).margin(1e-3));
  }
  records.Add([](ExampleBuilder& builder) { builder.Bytes("x", "GIF89a"); });
  CHECK(records.Refused(feature).find("/t row 1: feature \"x\": is neither JPEG nor PNG; it is a "
                                      "GIF image") != std::string::npos);
  CHECK(records.Refused({{"name", "x"}, {"dtype", "image"}}).find("features[0].size: is missing") !=
        std::string::npos);
}

// Encodes a protobuf message of bytes fields.
std::string Message(const std::vector<std::pair<int, std::string>>& fields) {
  std::string bytes;
  for (const auto& [number, value] : fields) {
    bytes += static_cast<char>(number << 3 | 2);
    bytes += static_cast<char>(value.size());
    bytes += value;
  }
  return bytes;
}

TEST_CASE("a SequenceExample's context and lists are features") {
  // Feature { FloatList } and Feature { Int64List }.
  const auto floats = [](const Values& values) {
    return Message({{2, Message({{1, Raw(values)}})}});
  };
  const auto step = [](const std::string& ids) { return Message({{3, Message({{1, ids}})}}); };
  const std::string context = Message({{1, Message({{1, "y"}, {2, floats({3})}})}});
  const std::string list = Message({{1, step("\x01\x02")}, {1, step("\x03\x04")}});
  const std::string lists = Message({{1, Message({{1, "x"}, {2, list}})}});
  MemoryFiles files;
  files.contents["/t"] = Container({Message({{1, context}, {2, lists}})});
  const Batch batch = ReadAllRecords(
      OpenFeatures(files, FeatureOptions({{"name", "x"}, {"shape", {3, 2}}, {"pad", 0}})));
  CHECK(batch.inputs[0].values == Values{1, 2, 3, 4, 0, 0});
  CHECK(batch.targets[0].values == Values{3});

  // A list without steps is empty, not missing.
  const std::string none = Message({{1, Message({{1, "x"}, {2, ""}})}});
  files.contents["/t"] = Container({Message({{1, context}, {2, none}}), Message({{1, context}})});
  for (const json& dtype : {json("float32"), json("int64")}) {
    const Batch filled = ReadAllRecords(OpenFeatures(
        files, FeatureOptions(
                   {{"name", "x"}, {"shape", {2}}, {"pad", 4}, {"default", 9}, {"dtype", dtype}})));
    CHECK(filled.inputs[0].values == Values{4, 4, 9, 9});
  }
  const Batch words = ReadAllRecords(OpenFeatures(
      files,
      FeatureOptions(
          {{"name", "x"}, {"shape", {1}}, {"pad", "-"}, {"default", "?"}, {"dtype", "string"}})));
  CHECK(words.inputs[0].strings == Texts{"-", "?"});

  const std::string mixed = Message({{1, step("\x01")}, {1, floats({3})}});
  const std::string bad = Message({{1, Message({{1, "x"}, {2, mixed}})}});
  files.contents["/t"] = Container({Message({{1, context}, {2, bad}})});
  const auto source =
      OpenFeatures(files, FeatureOptions({{"name", "x"}, {"shape", {3, 2}}, {"pad", 0}}));
  CHECK(source.status().message().find("the steps of a feature list are of several types") !=
        std::string::npos);
}

}  // namespace
}  // namespace paracord
