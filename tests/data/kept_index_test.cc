// Tests the indices of csv, tfrecord and text that readers cache for the next start, with real
// files.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "data/data_source.h"
#include "data/packing.h"
#include "data/record_index.h"
#include "data/source_testing.h"
#include "fakes.h"
#include "storage/crc32c.h"
#include "storage/tf_record_writer.h"

namespace paracord {
namespace {

using nlohmann::json;

// Counts the bytes read from files.
class CountingFiles : public PosixFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    if (path.ends_with(".kept") && before_kept) before_kept();
    absl::StatusOr<std::unique_ptr<ReadFile>> file = PosixFiles::Open(path);
    if (!file.ok()) return file;
    return std::make_unique<Counted>(*std::move(file), path.ends_with(".kept") ? kept : data);
  }
  uint64_t kept = 0, data = 0;  // bytes
  std::function<void()> before_kept;

 private:
  class Counted : public ReadFile {
   public:
    Counted(std::unique_ptr<ReadFile> file, uint64_t& bytes)
        : file_(std::move(file)), bytes_(bytes) {}
    uint64_t size() const override { return file_->size(); }
    std::string identity() const override { return file_->identity(); }
    absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
      bytes_ += out.size();
      return file_->ReadAt(offset, out);
    }

   private:
    const std::unique_ptr<ReadFile> file_;
    uint64_t& bytes_;
  };
};

constexpr int kRows = 60000;

struct Kept {
  TestDirectory directory;
  CountingFiles files;
  DataSpec spec;

  explicit Kept(const std::string& format) {
    spec.format = format;
    spec.keep = {directory / "index", "a", 0};
    spec.options = {{"files", directory / "data*"}};
  }
  void Write(const std::string& name, const std::string& bytes) {
    REQUIRE(Overwrite(files, directory / name, bytes));
  }
  OpenedSource Open() {
    files.kept = files.data = 0;
    return OpenDataSource(files, spec);
  }
  std::vector<std::string> Names() {
    return files.List(directory / "index").value_or(std::vector<std::string>());
  }
  std::string OnlyPath() {
    const std::vector<std::string> names = Names();
    REQUIRE(names.size() == 1);
    return directory / ("index/" + names[0]);
  }
};

struct KeptCsv : Kept {
  KeptCsv() : Kept("csv") { spec.options.update({{"features", {"a"}}, {"label", "b"}}); }
};

std::string CsvOf(int rows, int add = 0) {
  std::string text = "a,b\n";
  for (int i = 0; i < rows; ++i) {
    text += std::to_string(10000 + (i * 7 + add) % 89999) + "," + std::to_string(i % 10) + "\n";
  }
  return text;
}

// Checks that a second start reads only the beginning of the data, and returns equal records.
void CheckKept(Kept& kept, size_t names) {
  const OpenedSource first = kept.Open();
  const Batch all = ReadAllRecords(first);
  REQUIRE(kept.Names().size() == names);
  const OpenedSource second = kept.Open();
  REQUIRE(second.ok());
  CHECK(kept.files.kept > 0);
  CHECK((*second)->fingerprint() == (*first)->fingerprint());
  CHECK((*second)->Describe() == (*first)->Describe());
  const Batch again = ReadAllRecords(second);
  CHECK(again.inputs[0].values == all.inputs[0].values);
  CHECK(again.targets[0].values == all.targets[0].values);
  CHECK((*second)->Where((*second)->records() - 1) == (*first)->Where((*first)->records() - 1));
}

TEST_CASE("the index that a reader kept of its files is used at the next start") {
  SECTION("csv") {
    KeptCsv kept;
    kept.Write("data1", CsvOf(kRows));
    kept.Write("data2", CsvOf(kRows, 1));
    CheckKept(kept, 1);
    (void)kept.Open();
    // Reads only the header and the first 1000 records, whose fields are checked.
    CHECK(kept.files.data < 1'000'000);
  }
  SECTION("csv, a file without records among them") {
    KeptCsv kept;
    kept.spec.options["header"] = false;
    kept.spec.options["features"] = {0u};
    kept.spec.options["label"] = 1u;
    kept.Write("data1", "1,2\n");
    kept.Write("data2", "");
    kept.Write("data3", "3,4\n5,6\n");
    CheckKept(kept, 1);
  }
  SECTION("csv, gzip") {
    KeptCsv kept;
    kept.Write("data1", Gzip(CsvOf(kRows)));
    CheckKept(kept, 1);
  }
  SECTION("windows of text, with their vocabulary") {
    Kept kept("text");
    kept.spec.options.update({{"window", 8u}, {"unit", "word"}});
    std::string text;
    for (int i = 0; i < kRows; ++i) text += "word" + std::to_string(i % 977 * i % 977) + " ";
    kept.Write("data1", text);
    CheckKept(kept, 2);
    (void)kept.Open();
    CHECK(kept.files.data < text.size());  // else more than twice the text is read
  }
}

TEST_CASE("records of a TFRecord file are found by the kept index") {
  Kept kept("tfrecord");
  kept.spec.options.update({{"features", "x"}, {"label", "x"}});
  {
    const auto file = kept.files.Create(kept.directory / "data");
    TfRecordWriter writer(**file);
    // The record is tf.train.Example {"x": [i]}, encoded by hand: features, entry, key, feature,
    // int64_list, packed.
    for (int i = 0; i < kRows; ++i) {
      const char value = static_cast<char>(i % 100);
      std::string record("\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01", 13);
      REQUIRE(writer.Append(record + value).ok());
    }
  }
  CheckKept(kept, 1);
  (void)kept.Open();
  CHECK(kept.files.data < 1'000'000);
}

TEST_CASE("changed files, other options and another format are indexed anew") {
  KeptCsv kept;
  kept.Write("data1", CsvOf(100));
  const std::string fingerprint = (*kept.Open())->fingerprint();
  kept.Write("data1", CsvOf(100, 3));  // equally long
  const OpenedSource changed = kept.Open();
  REQUIRE(changed.ok());
  CHECK(kept.files.kept == 0);
  CHECK((*changed)->fingerprint() != fingerprint);
  kept.spec.options["trim"] = true;
  REQUIRE(kept.Open().ok());
  CHECK(kept.files.kept == 0);
  kept.Write("data2", CsvOf(5));
  const OpenedSource more = kept.Open();
  REQUIRE(more.ok());
  CHECK(kept.files.kept == 0);
  CHECK((*more)->records() == 105);
  kept.Write("data2", CsvOf(5) + "1,2,3\n");
  CHECK_FALSE(kept.Open().ok());
  CHECK(kept.Names().size() == 4);  // unreadable files add no index
}

TEST_CASE("a damaged kept index is ignored and written anew") {
  KeptCsv kept;
  kept.Write("data1", CsvOf(300));
  const Batch all = ReadAllRecords(kept.Open());
  const std::string path = kept.OnlyPath();
  const std::string whole = *kept.files.ReadWhole(path);
  const auto check = [&](const std::string& bytes) {
    kept.Write("index/" + path.substr(path.rfind('/') + 1), bytes);
    CHECK(ReadAllRecords(kept.Open()).inputs[0].values == all.inputs[0].values);
    CHECK(*kept.files.ReadWhole(path) == whole);
  };
  for (size_t size = 0; size < whole.size(); size += 7) check(whole.substr(0, size));
  for (size_t at = 0; at < whole.size(); at += 5) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    check(bytes);
  }
  check(whole + "x");
}

TEST_CASE("data that are replaced while a kept index is recalled are refused") {
  KeptCsv kept;
  kept.Write("data1", CsvOf(300));
  REQUIRE(kept.Open().ok());
  kept.files.before_kept = [&] { kept.Write("data1", CsvOf(300, 1)); };
  const absl::Status status = kept.Open().status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(status.message().find("data1: a file of these data changed") != std::string::npos);
  kept.files.before_kept = nullptr;
  CHECK(kept.Open().ok());
}

TEST_CASE("paths that are not UTF-8 are kept like others") {
  KeptCsv kept;
  kept.spec.options["files"] = kept.directory / "caf\xe9";
  kept.Write("caf\xe9", CsvOf(kRows));
  CheckKept(kept, 1);
}

TEST_CASE("an index with a right checksum and wrong places is ignored") {
  KeptCsv kept;
  kept.Write("data1", CsvOf(300));
  const Batch all = ReadAllRecords(kept.Open());
  const std::string path = kept.OnlyPath();
  const std::string whole = *kept.files.ReadWhole(path);
  uint64_t subject = 0;
  std::memcpy(&subject, whole.data() + 12, sizeof subject);
  const size_t before = 20 + subject;
  const std::string body = whole.substr(before, whole.size() - before - 4);
  REQUIRE(DecodePlaces(body, 300).has_value());
  CHECK_FALSE(DecodePlaces(body, 299).has_value());  // more entries than allowed
  for (size_t at = 0; at < 8; ++at) {
    for (int value = 0; value < 256; value += 3) {
      std::string changed = body;
      changed[at] = static_cast<char>(value);
      std::string bytes = whole.substr(0, before) + changed;
      const uint32_t crc = Crc32c(bytes);
      bytes.append(reinterpret_cast<const char*>(&crc), sizeof crc);
      REQUIRE(Overwrite(kept.files, path, bytes));
      // Whatever the index says, each read stays inside the file and gives a record or an error.
      const OpenedSource source = kept.Open();
      if (!source.ok()) continue;
      Batch batch;
      for (uint64_t record = 0; record < (*source)->records(); record += 50) {
        (void)(*source)->Read(std::vector<uint64_t>{record}, batch);
      }
    }
  }
}

TEST_CASE("places of records are refused unless they ascend inside of their file") {
  const auto decoded = [](uint64_t every, RecordPlaces file) {
    return DecodePlaces(EncodePlaces({every, {std::move(file)}}), 1000).has_value();
  };
  CHECK(decoded(1, {4, 20, 3, 7, {4, 9, 19}}));
  CHECK(decoded(2, {4, 20, 3, 7, {4, 9}}));
  CHECK(decoded(4, {4, 20, 0, 7, {}}));
  CHECK_FALSE(decoded(3, {4, 20, 3, 7, {4}}));  // no power of two
  CHECK_FALSE(decoded(0, {4, 20, 3, 7, {4, 9, 19}}));
  CHECK_FALSE(decoded(1, {4, 20, 3, 7, {4, 9, 20}}));    // beyond the end
  CHECK_FALSE(decoded(1, {4, 20, 3, 7, {4, 4, 9}}));     // a duplicate
  CHECK_FALSE(decoded(1, {4, 20, 3, 7, {9, 4, 19}}));    // descending, beyond 64 bits
  CHECK_FALSE(decoded(1, {4, 20, 3, 7, {4, 9}}));        // too few
  CHECK_FALSE(decoded(1, {4, 20, 3, 7, {4, 5, 6, 7}}));  // too many
  CHECK_FALSE(decoded(1, {21, 20, 0, 7, {}}));
  CHECK_FALSE(decoded(1, {4, 20, 17, 7, {}}));
  CHECK_FALSE(decoded(1, {4, 20, UINT64_MAX, 7, {}}));
  CHECK_FALSE(DecodePlaces("", 1000).has_value());
  CHECK_FALSE(DecodePlaces("\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 1000).has_value());
}

TEST_CASE("varints of a kept body are read back, and those beyond 64 bits are refused") {
  for (const uint64_t number :
       {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{300}, uint64_t{1} << 63, UINT64_MAX}) {
    std::string bytes;
    AppendVarint(number, bytes);
    std::string_view from = bytes;
    uint64_t back = 1;
    REQUIRE(TakeVarint(from, back));
    CHECK(back == number);
    CHECK(from.empty());
    from = std::string_view(bytes).substr(0, bytes.size() - 1);
    CHECK_FALSE(TakeVarint(from, back));
  }
  std::string_view long_one = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
  uint64_t number = 0;
  CHECK_FALSE(TakeVarint(long_one, number));
}

TEST_CASE("a directory that cannot be written to only makes the next start slower") {
  KeptCsv kept;
  kept.Write("data1", CsvOf(10));
  kept.Write("index", "a file, not a directory");
  CHECK(ReadAllRecords(kept.Open()).examples == 10);
}

TEST_CASE("little data, and a process without a place, keep nothing") {
  KeptCsv kept;
  kept.Write("data1", CsvOf(10));
  kept.spec.keep.bytes_min = 1 << 20;
  CHECK(kept.Open().ok());
  CHECK(kept.Names().empty());
  kept.spec.keep = {};
  CHECK(kept.Open().ok());
  CHECK(kept.Names().empty());
}

TEST_CASE("unfinished files of dead writers are removed, and the number of files is bounded") {
  KeptCsv kept;
  kept.Write("data1", CsvOf(10));
  REQUIRE(kept.Open().ok());
  const std::string path = kept.OnlyPath();
  REQUIRE(Overwrite(kept.files, path + ".dead.tmp", "half"));
  REQUIRE(Overwrite(kept.files, path, "damaged"));
  REQUIRE(kept.Open().ok());
  CHECK(kept.OnlyPath() == path);
  for (int i = 0; i < 300; ++i) kept.Write(absl::StrCat("index/other-", i, ".kept"), "x");
  kept.Write("index/other-9.kept.b.tmp", "x");  // a process may be writing this file
  REQUIRE(Overwrite(kept.files, path, "damaged"));
  REQUIRE(kept.Open().ok());
  const std::vector<std::string> names = kept.Names();
  CHECK(names.size() == 256);
  CHECK(std::count(names.begin(), names.end(), "other-9.kept.b.tmp") == 1);
  CHECK(std::count(names.begin(), names.end(), std::filesystem::path(path).filename()) == 1);
}

}  // namespace
}  // namespace paracord
