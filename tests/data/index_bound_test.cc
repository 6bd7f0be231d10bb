// The bounds of what readers hold of files of records: what is read does not depend on them,
// whatever the format and the order.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mix.h"
#include "data/data_source.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "data/record_index.h"
#include "data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr int kBoundRows = 300;

// Records of different lengths; a quoted field holds an end of line.
std::string BoundCsv(int first) {
  std::string text = "name,a,b\n";
  for (int i = first; i < first + kBoundRows; ++i) {
    absl::StrAppend(&text, "\"", std::string(static_cast<size_t>(i % 40), 'x'),
                    i % 7 == 0 ? "\n" : "", "\",", 1000 + i, ",", i % 10, "\n");
  }
  return text;
}

// tf.train.Example {"x": [128 + i]}, encoded by hand, with a value of two bytes.
std::string BoundExamples(int first) {
  std::vector<std::string> records;
  for (int i = first; i < first + kBoundRows; ++i) {
    std::string record("\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x0a\x02", 13);
    record += static_cast<char>((i & 127) | 128);
    record += static_cast<char>((i >> 7) + 1);
    records.push_back(record);
  }
  return Container(records);
}

std::string BoundText(int first) {
  std::string text;
  for (int i = first; i < first + kBoundRows; ++i) absl::StrAppend(&text, "word", i * i % 97, " ");
  return text;
}

struct Bounded {
  std::string name;
  DataSpec spec;
  std::string one, two;  // the files
};

std::vector<Bounded> BoundedFormats() {
  DataSpec csv, tfrecord, text;
  csv.format = "csv";
  csv.options = {{"features", {"a"}}, {"label", "b"}};
  tfrecord.format = "tfrecord";
  tfrecord.options = {{"features", "x"}, {"label", "x"}};
  text.format = "text";
  text.options = {{"window", 8u}, {"unit", "word"}};
  return {
      {"csv", csv, BoundCsv(0), BoundCsv(kBoundRows)},
      {"csv, gzip", csv, Gzip(BoundCsv(0)), Gzip(BoundCsv(kBoundRows))},
      {"tfrecord", tfrecord, BoundExamples(0), BoundExamples(kBoundRows)},
      {"tfrecord, gzip", tfrecord, Gzip(BoundExamples(0)), BoundExamples(kBoundRows)},
      {"tfrecord, zlib", tfrecord, Deflate(BoundExamples(0), MAX_WBITS), BoundExamples(kBoundRows)},
      {"text", text, BoundText(0), BoundText(kBoundRows)}};
}

std::vector<float> ReadOne(const DataSource& source, uint64_t record) {
  Batch batch;
  const absl::Status read = source.Read({&record, 1}, batch);
  INFO(read);
  REQUIRE(read.ok());
  std::vector<float> values = batch.inputs[0].values;
  const std::vector<float>& targets = batch.targets[0].values;
  values.insert(values.end(), targets.begin(), targets.end());
  return values;
}

TEST_CASE("records are the same whatever bounds their readers have, in any order") {
  for (Bounded& format : BoundedFormats()) {
    MemoryFiles files;
    files.contents = {{"/one", format.one}, {"/two", format.two}};
    format.spec.options["files"] = {"/one", "/two"};
    const OpenedSource all = OpenDataSource(files, format.spec);
    INFO(format.name << ": " << all.status());
    REQUIRE(all.ok());
    const uint64_t records = (*all)->records();
    REQUIRE(records > 50);
    std::vector<std::vector<float>> expected;
    for (uint64_t i = 0; i < records; ++i) expected.push_back(ReadOne(**all, i));
    for (const uint64_t entries_max : {uint64_t{1}, uint64_t{3}, uint64_t{20}, records}) {
      format.spec.index_entries_max = entries_max;
      format.spec.unpacked_bytes_max = entries_max % 2 == 1 ? 0 : UINT64_MAX;
      const OpenedSource source = OpenDataSource(files, format.spec);
      INFO(entries_max << " entries: " << source.status());
      REQUIRE(source.ok());
      CHECK((*source)->fingerprint() == (*all)->fingerprint());
      CHECK((*source)->records() == records);
      for (uint64_t i = 0; i < records; ++i) {  // at random
        const uint64_t record = Mix64(entries_max + i) % records;
        REQUIRE(ReadOne(**source, record) == expected[record]);
        REQUIRE((*source)->Where(record) == (*all)->Where(record));
      }
      // Several readers, each in the order of the records, and one backwards.
      for (uint64_t i = 0; i < records; ++i) {
        for (const uint64_t ahead : {uint64_t{0}, uint64_t{5}, uint64_t{60}, records / 2}) {
          const uint64_t record = (i + ahead) % records;
          REQUIRE(ReadOne(**source, record) == expected[record]);
        }
        REQUIRE(ReadOne(**source, records - 1 - i) == expected[records - 1 - i]);
      }
    }
  }
}

// Counts the records that it moves over.
class CountingCutter : public RecordCutter {
 public:
  absl::StatusOr<bool> Skip(FileCursor& cursor) const override {
    const auto text = cursor.Peek(1);
    if (!text.ok() || text->empty()) return false;
    cursor.Skip(1);
    ++skipped;
    return true;
  }
  mutable uint64_t skipped = 0;
};

TEST_CASE("readers that go through the records in their order walk over each about once") {
  constexpr uint64_t kRecords = 4000, kApart = 70;
  MemoryFiles files;
  files.contents["/a"] = std::string(kRecords, 'r');
  RecordIndex index(/*entries_max=*/4);
  CountingCutter cutter;
  REQUIRE(index.Add("/a", *files.Open("/a"), 0, cutter).ok());
  cutter.skipped = 0;
  for (uint64_t record = 0; record + kApart < kRecords; ++record) {
    REQUIRE(index.Seek(record + kApart, cutter).ok());
    REQUIRE(index.Seek(record, cutter).ok());
  }
  CHECK(cutter.skipped < 3 * kRecords);
}

TEST_CASE("more files than an index may note offsets of are read all the same") {
  MemoryFiles files;
  json paths = json::array();
  for (int i = 0; i < 100; ++i) {
    const std::string path = absl::StrCat("/part-", i);
    files.contents[path] = absl::StrCat("a,b\n", i, ",1\n", 1000 + i, ",2\n");
    paths.push_back(path);
  }
  DataSpec spec;
  spec.format = "csv";
  spec.options = {{"features", {"a"}}, {"label", "b"}, {"files", paths}};
  spec.index_entries_max = 2;
  const Batch all = ReadAllRecords(OpenDataSource(files, spec));
  REQUIRE(all.examples == 200);
  CHECK(all.inputs[0].values[198] == 99);
  CHECK(all.inputs[0].values[199] == 1099);
}

}  // namespace
}  // namespace paracord
