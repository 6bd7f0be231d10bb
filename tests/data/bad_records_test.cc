// Unreadable records are left out, up to a limit, and are named.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "data/data_source.h"
#include "storage/tf_record_writer.h"
#include "tests/data/memory_files.h"
#include "tests/data/packing.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr char kRaggedRows[] =
    "x,y\n0,0\n1,1\n2\n3,3\nfour,4\n5,5\n6,6,6\n\"7\"7,7\n\"8\",8\n";  // rows 2, 4, 6 and 7 are bad

class RaggedCsv {
 public:
  explicit RaggedCsv(const std::string& text = kRaggedRows) { files_.contents["/d.csv"] = text; }

  OpenedSource Open(uint64_t skip, json more = json::object()) {
    DataSpec spec{"csv", {{"files", "/d.csv"}, {"features", "x"}, {"label", "y"}}};
    spec.options.update(more);
    if (skip > 0) spec.options["bad_records"] = {{"skip", skip}};
    spec.options = JsonOf(TextOf(spec.options));
    return OpenDataSource(files_, spec);
  }
  MemoryFiles& files() { return files_; }

 private:
  MemoryFiles files_;
};

TEST_CASE("records that cannot be read are left out of their batch, up to the number given") {
  RaggedCsv csv;
  const OpenedSource source = csv.Open(4);
  INFO(source.status());
  REQUIRE(source.ok());
  CHECK((*source)->records() == 9);
  const Batch batch = ReadAllRecords(source);
  CHECK(batch.examples == 5);
  CHECK(batch.records == std::vector<uint64_t>{0, 1, 3, 5, 8});
  CHECK(batch.inputs[0].values == std::vector<float>{0, 1, 3, 5, 8});
  CHECK(batch.targets[0].values == std::vector<float>{0, 1, 3, 5, 8});
  REQUIRE(batch.left_out.size() == 4);
  CHECK(batch.left_out[0] == "/d.csv row 2: has 1 fields instead of 2");
  // A bad record counts once, however often it is read.
  CHECK(ReadAllRecords(source).examples == 5);
  const std::vector<std::string> warnings = (*source)->Warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] ==
        "bad_records: 4 of the first records are left out, first /d.csv row 2: has 1 fields "
        "instead of 2");

  Batch none;
  const std::vector<uint64_t> bad = {2, 4};
  CHECK_FALSE((*source)->Read(bad, none).ok());  // a batch needs an example
}

TEST_CASE("a bad record beyond the number fails as it does without, and says why") {
  RaggedCsv csv;
  const OpenedSource at_start = csv.Open(3);
  REQUIRE_FALSE(at_start.ok());
  CHECK(absl::StrContains(std::string(at_start.status().message()), "/d.csv row 7"));
  CHECK(
      absl::StrContains(std::string(csv.Open(0).status().message()), "/d.csv row 2: has 1 fields"));

  std::string later = "x,y\n";
  for (int i = 0; i < 1500; ++i)
    absl::StrAppend(&later, i < 1200 || i % 100 != 0 ? "1" : "word", ",1\n");
  RaggedCsv late(later);
  const OpenedSource source = late.Open(2);
  REQUIRE(source.ok());
  Batch batch;
  const auto read = [&](std::vector<uint64_t> records) { return (*source)->Read(records, batch); };
  REQUIRE(read({1199, 1200}).ok());
  CHECK(batch.records == std::vector<uint64_t>{1199});
  CHECK(batch.left_out.size() == 1);
  REQUIRE(read({1198, 1199}).ok());
  CHECK(batch.left_out.empty());  // although the reused batch had some
  REQUIRE(read({1299, 1300}).ok());
  const absl::Status third = read({1399, 1400});
  CHECK(absl::StrContains(std::string(third.message()), "/d.csv row 1400: column \"x\""));
  CHECK(absl::StrContains(std::string(third.message()),
                          "bad_records left out 2 records before, and allows no more"));
}

TEST_CASE("bad records are left out of parts and mixes, by the numbers that these give") {
  RaggedCsv csv;
  const OpenedSource part = csv.Open(4, {{"part", {{"from", 0.2}, {"to", 1.0}}}});
  INFO(part.status());
  REQUIRE(part.ok());
  CHECK(ReadAllRecords(part).records == std::vector<uint64_t>{1, 3, 6});

  const json one = {{"format", "csv"}, {"files", "/d.csv"}, {"features", "x"}, {"label", "y"}};
  json mix = {{"mix", {one, one}}, {"bad_records", {{"skip", 8}}}};
  const OpenedSource mixed = OpenDataSource(csv.files(), {"mix", JsonOf(TextOf(mix))});
  CHECK(ReadAllRecords(mixed).examples == 10);
  mix["mix"][1]["bad_records"] = {{"skip", 8}};
  const OpenedSource refused = OpenDataSource(csv.files(), {"mix", JsonOf(TextOf(mix))});
  CHECK(absl::StrContains(std::string(refused.status().message()),
                          "mix[1].bad_records: belongs to the whole mix"));
}

TEST_CASE("of a TFRecord file a record with a wrong checksum is left out") {
  StringFile file;
  TfRecordWriter writer(file);
  for (int i = 0; i < 3; ++i) {
    // A tf.train.Example with a float list "x" of one number.
    const char number = static_cast<char>('0' + i);
    REQUIRE(
        writer
            .Append(std::string("\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\0\0\x80", 16) +
                    number)
            .ok());
  }
  std::string bytes = file.bytes;
  bytes[bytes.size() / 2] ^= 1;  // within the data of the second record
  MemoryFiles files;
  files.contents["/d"] = bytes;
  json options = {{"files", "/d"}, {"features", "x"}, {"label", "x"}};
  CHECK_FALSE(OpenDataSource(files, {"tfrecord", options}).ok());
  options["bad_records"] = {{"skip", 1}};
  const OpenedSource source = OpenDataSource(files, {"tfrecord", JsonOf(TextOf(options))});
  CHECK(ReadAllRecords(source).records == std::vector<uint64_t>{0, 2});
}

TEST_CASE("bad_records is an object that says how many") {
  RaggedCsv csv;
  for (const auto& [value, said] :
       std::vector<std::pair<json, std::string>>{{{{"skip", 0}}, "bad_records.skip"},
                                                 {json::object(), "bad_records.skip: is missing"},
                                                 {3, "bad_records"},
                                                 {{{"skip", 1}, {"drop", 2}}, "drop"}}) {
    const OpenedSource source = csv.Open(0, {{"bad_records", value}});
    INFO(source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(absl::StrContains(std::string(source.status().message()), said));
  }
}

}  // namespace
}  // namespace paracord
