#include <catch2/catch.hpp>

#include "common/fingerprint64.h"
#include "common/json_text.h"
#include "data/csv_text.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "tests/data/source_testing.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

json Options(json features, json label) {
  return {{"files", "/d.csv"}, {"features", std::move(features)}, {"label", std::move(label)}};
}

OpenedSource OpenCsv(Files& files, const json& options) {
  // Prints and parses the options: the job's parser reads unsigned numbers, C++ literals are
  // signed.
  return OpenDataSource(files, {"csv", JsonOf(TextOf(options))});
}

// Returns all records of a file, in order.
Batch ReadAll(const std::string& text, const json& options) {
  MemoryFiles files;
  files.contents["/d.csv"] = text;
  return ReadAllRecords(OpenCsv(files, options));
}

TEST_CASE("csv records are those of RFC 4180, whatever ends their lines") {
  const json options = Options({{{"column", "t"}, {"kind", "hashed"}, {"bins", 1 << 24}}}, "y");
  const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"t,y\na,0\nb,1\n", {"a", "b"}},
      {"t,y\na,0\nb,1", {"a", "b"}},
      {"t,y\r\na,0\r\nb,1\r\n", {"a", "b"}},
      {"\xef\xbb\xbft,y\na,0\n", {"a"}},
      {"\"t\",\"y\"\n\"a\",\"0\"\n", {"a"}},
      {"t,y\n\"a,b\",0\n\"c\nd\",1\n\"e\r\nf\",2\n", {"a,b", "c\nd", "e\r\nf"}},
      {"t,y\n\"say \"\"a\"\"\",0\n\"\"\"\",1\n", {"say \"a\"", "\""}},
      {"t,y\n\n\r\na,0\n\nb,1\n\n", {"a", "b"}},
      {"t,y\n5\" disk,0\n", {"5\" disk"}},
      {"t,y\nx\ry,0\r\n", {"x\ry"}},
  };
  for (const auto& [text, words] : table) {
    for (const bool packed : {false, true}) {
      INFO(text);
      const Batch batch = ReadAll(packed ? Gzip(text) : text, options);
      Values bins, labels;
      for (const std::string& word : words) {
        labels.push_back(static_cast<float>(labels.size()));
        bins.push_back(static_cast<float>(Fingerprint64(word) % (1 << 24)));
      }
      CHECK(batch.inputs[0].values == bins);
      CHECK(batch.inputs[0].shape == std::vector<uint64_t>{1});
      CHECK(batch.targets[0].values == labels);
      CHECK(batch.targets[0].shape.empty());
    }
  }
}

TEST_CASE("columns become numbers, categories, bins and crosses, by input in order") {
  const json options = {
      {"files", "/d.csv"},
      {"features",
       {{{"column", "age"}, {"mean", 30}, {"std", 10}, {"default", 40}, {"input", "wide"}},
        {{"column", "job"},
         {"kind", "categorical"},
         {"vocabulary", {"a", {"b", "B"}}},
         {"input", "deep"}},
        {{"columns", {"job", "age"}},
         {"kind", "crossed"},
         {"bins", 1000},
         {"input", "wide"},
         {"default", "none"}},
        {{"column", "job"},
         {"kind", "categorical"},
         {"vocabulary", {"a", "b"}},
         {"oov", 2},
         {"one_hot", true},
         {"default", "a"},
         {"input", "deep"}}}},
      {"label", {{"column", "rich"}, {"kind", "categorical"}, {"vocabulary", {"no", "yes"}}}},
      {"missing", {"?"}},
      {"weight", "w"}};
  const Batch batch = ReadAll("age,job,rich,w\n20,a,yes,1\n?,B,no,0.5\n60,zz,no,2\n", options);
  const auto cross = [](const char* a, const char* b) {
    CrossFingerprint hash;
    hash.Add(Fingerprint64(a));
    hash.Add(Fingerprint64(b));
    return static_cast<float>(hash.value() % 1000);
  };
  REQUIRE(batch.inputs.size() == 2);
  CHECK(batch.inputs[0].name == "wide");
  CHECK(batch.inputs[0].shape == std::vector<uint64_t>{2});
  CHECK(batch.inputs[0].values ==
        Values{-1, cross("a", "20"), 1, cross("B", "none"), 3, cross("zz", "60")});
  CHECK(batch.inputs[1].name == "deep");
  CHECK(batch.inputs[1].shape == std::vector<uint64_t>{5});
  const float other = static_cast<float>(Fingerprint64("zz") % 2);
  const float big_b = static_cast<float>(Fingerprint64("B") % 2);
  CHECK(batch.inputs[1].values == Values{1, 0, 0, 1, 0,              //
                                         2, 1 - big_b, big_b, 0, 0,  //
                                         0, 1 - other, other, 0, 0});
  CHECK(batch.targets[0].values == Values{1, 0, 0});
  REQUIRE(batch.weights.size() == 1);
  CHECK(batch.weights[0].values == Values{1, 0.5, 2});
}

TEST_CASE("strings go to the model as they are, through mixes and parts too") {
  MemoryFiles files;
  files.contents["/d.csv"] = "a,b,n,y\n\"x,1\",?,0,0\n\xc3\xa4,z,1,1\n";
  json options = Options({{{"column", "a"}, {"kind", "string"}, {"input", "s"}},
                          {{"column", "n"}, {"input", "n"}},
                          {{"column", "b"}, {"kind", "string"}, {"input", "s"}, {"default", "-"}}},
                         "y");
  options["missing"] = {"?"};
  json half = options;
  half["part"] = {{"from", 0.5}};
  half["format"] = options["format"] = "csv";
  const json mix = {{"mix", {options, half}}};
  for (const auto& [format, all] : {std::pair<std::string, json>("csv", options), {"mix", mix}}) {
    json inner = JsonOf(TextOf(all));
    inner.erase("format");
    const auto source = OpenDataSource(files, {format, inner});
    INFO(source.status());
    REQUIRE(source.ok());
    CHECK((*source)->schema().inputs[0].text);
    Batch batch;
    // In the mix, row 1 comes first, as the only row of `half`.
    const std::vector<uint64_t> records =
        format == "mix" ? std::vector<uint64_t>{0, 1} : std::vector<uint64_t>{1, 0};
    REQUIRE((*source)->Read(records, batch).ok());
    CHECK(batch.inputs[0].text);
    CHECK(batch.inputs[0].shape == std::vector<uint64_t>{2});
    CHECK(batch.inputs[0].values.empty());
    CHECK(batch.inputs[0].strings == std::vector<std::string>{"\xc3\xa4", "z", "x,1", "-"});
    CHECK_FALSE(batch.inputs[1].text);
    CHECK(batch.inputs[1].values == Values{1, 0});
  }
}

TEST_CASE("columns are found by name, number, given name and pattern") {
  json options = Options({1, 0}, 2);
  options["header"] = false;
  CHECK(ReadAll("1,2,3\n4,5,6\n", options).inputs[0].values == Values{2, 1, 5, 4});
  options = Options({"b", 0}, {"c", "d"});
  options["header"] = false;
  options["columns"] = {"a", "b", "c", "d"};
  const Batch batch = ReadAll("1,2,3,7\n4,5,6,8\n", options);
  CHECK(batch.inputs[0].values == Values{2, 1, 5, 4});
  CHECK(batch.targets[0].values == Values{3, 7, 6, 8});
  CHECK(batch.targets[0].shape == std::vector<uint64_t>{2});
  CHECK(ReadAll("y,p1,p2,q\n0,1,2,3\n", Options("p*", "y")).inputs[0].values == Values{1, 2});
  CHECK(ReadAll("#1,p,y\n3,1,0\n", Options({"#1", 1}, "y")).inputs[0].values == Values{3, 1});
}

TEST_CASE("delimiters, spaces around fields and lines before the header are options") {
  json options = Options({"a"}, {{"column", "b"}, {"kind", "categorical"}, {"vocabulary", {"x"}}});
  options["trim"] = true;
  options["delimiter"] = ";";
  options["skip_lines"] = 2;
  const Batch batch = ReadAll("made by\nhand \"\na ; b\n 1 ;\t\"x\"  \n2;x\n", options);
  CHECK(batch.inputs[0].values == Values{1, 2});
}

TEST_CASE("a line to skip may be of any length") {
  json options = Options({"a"}, "y");
  options["skip_lines"] = 2;
  const std::string text = std::string(200000, '#') + "\n\na,y\n1,2\n";
  CHECK(ReadAll(text, options).inputs[0].values == Values{1});
}

TEST_CASE("a number too small for its type is rounded to zero") {
  MemoryFiles files;
  files.contents["/d.csv"] = "a,y\n1e-50,0\n-1e-400,1\n";
  const auto source = OpenCsv(files, Options({"a"}, "y"));
  REQUIRE(source.ok());
  Batch batch;
  REQUIRE((*source)->Read(std::vector<uint64_t>{0, 1}, batch).ok());
  CHECK(batch.inputs[0].values == Values{0, 0});
}

TEST_CASE("several files are one sequence, and numbers count from each file's start") {
  MemoryFiles files;
  files.contents["/d/1.csv"] = "a,y\n1,0\n2,0\n";
  files.contents["/d/2.csv.gz"] = Gzip("a,y\n3,0\nx,0\n");
  const auto source = OpenCsv(files, {{"files", "/d/*"}, {"features", {"a"}}, {"label", "y"}});
  REQUIRE_FALSE(source.ok());
  CHECK(source.status().message() ==
        "/d/2.csv.gz row 1: column \"a\": \"x\" is not a finite number; \"kind\": "
        "\"categorical\" takes words");
  files.contents["/d/2.csv.gz"] = Gzip("a,y\n3,0\n4,0\n");
  const auto good = OpenCsv(files, {{"files", {"/d/*"}}, {"features", {"a"}}, {"label", "y"}});
  REQUIRE(good.ok());
  CHECK((*good)->Where(3) == "/d/2.csv.gz row 1");
  Batch batch;
  REQUIRE((*good)->Read(std::vector<uint64_t>{3, 0}, batch).ok());
  CHECK(batch.inputs[0].values == Values{4, 1});
  CHECK_FALSE((*good)->Read(std::vector<uint64_t>{4}, batch).ok());
}

TEST_CASE("fingerprints of csv tell the words of vocabulary files apart") {
  MemoryFiles files;
  files.contents["/d.csv"] = "t,y\na,1\nb,2\n";
  const auto fingerprint = [&](const std::string& key, const std::string& words) {
    files.contents["/words"] = words;
    const json spec = {{"column", "t"}, {"kind", "categorical"}, {"vocabulary_file", "/words"}};
    const bool label = key == "label";
    const auto source = OpenCsv(files, Options(label ? json("y") : spec, label ? spec : json("y")));
    INFO(source.status());
    REQUIRE(source.ok());
    return (*source)->fingerprint();
  };
  for (const char* key : {"features", "label"}) {
    const std::string base = fingerprint(key, "a\nb\n");
    CHECK(fingerprint(key, "a\r\nb") == base);
    CHECK(fingerprint(key, Gzip("\xef\xbb\xbf\x61\nb\n")) == base);
    CHECK(fingerprint(key, "b\na\n") != base);
    CHECK(fingerprint(key, "a\nb\nc\n") != base);
  }
}

TEST_CASE("a file whose name looks like a glob is that file") {
  MemoryFiles files;
  files.contents["/d/b[1].csv"] = "a,y\n1,0\n2,0\n";
  files.contents["/d/b1.csv"] = "a,y\n1,0\n";
  files.contents["/e[1]/*.csv"] = "a,y\n1,0\n2,0\n3,0\n";
  files.contents["/e[1]/x.csv"] = "a,y\n1,0\n";
  const auto records = [&](const std::string& path) {
    const auto source = OpenCsv(files, {{"files", path}, {"features", {"a"}}, {"label", "y"}});
    INFO(path << ": " << source.status());
    REQUIRE(source.ok());
    return (*source)->records();
  };
  CHECK(records("/d/b[1].csv") == 2);
  CHECK(records("/e[1]/*.csv") == 3);
  CHECK(records("/e[1]/x*.csv") == 1);
  CHECK(records("/d/b[0-9].csv") == 1);
  CHECK(records("/d/b*.csv") == 3);
}

TEST_CASE("damaged csv files are refused by file, row and column") {
  const std::string good = "a,t,y\n1,x,0\n2,y,1\n";
  std::string bad_gzip = Gzip(good);
  bad_gzip[bad_gzip.size() - 6] ^= 1;
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "/d.csv: has no header"},
      {"\n\n", "/d.csv: has no header"},
      {"a,t,y\n", "/d.csv: has no records"},
      {"a,t,y\n1,x\n", "/d.csv row 0: has 2 fields instead of 3"},
      {"a,t,y\n1,x,0\n1,x,0,4\n", "/d.csv row 1: has 4 fields instead of 3"},
      {"a,t,y\n1,x,0\n1,\"x,0\n", "/d.csv row 1: a quote is not closed"},
      {"a,t,y\n1,\"x\"z,0\n", "/d.csv row 0: field 2: something follows the closing quote"},
      {"a,\"t,y\n1,x,0\n", "/d.csv header: a quote is not closed"},
      {"a,t,y\n1,x,0\n,x,0\n", "/d.csv row 1: column \"a\": the value is missing"},
      {"a,t,y\n1,x,0\n2,,0\n", "/d.csv row 1: column \"t\": the value is missing"},
      {"a,t,y\nNaN,x,0\n", "/d.csv row 0: column \"a\": \"NaN\" is not a finite number"},
      {"a,t,y\n1,x,0\nnull,x,0\n",
       "\"null\" is not a finite number; if it stands for a value that "
       "is missing, name it in the data's \"missing\", and give the "
       "column a \"default\""},
      {"a;t;y\n1;x;0\n",
       "/d.csv: has a single column with the delimiter \",\"; its first line "
       "looks as if it were \"delimiter\": \";\""},
      {"a,t,y\nyes,x,0\nno,x,1\nyes,x,0\n",
       "takes words; the first records have \"vocabulary\": [\"no\", \"yes\"]"},
      {"PAR1\x15" + std::string(60, '\0'),
       "/d.csv: is no text: it is a Parquet file; `python3 -m "
       "paracord.convert FILE... OUT/` makes CSV of it"},
      {"a,t,y\n-inf,x,0\n", "\"-inf\" is not a finite number"},
      {"a,t,y\n1e39,x,0\n", "\"1e39\" is not a finite number"},
      {"a,t,y\n1e999,x,0\n", "\"1e999\" is not a finite number"},
      {"a,t,y\n0x10,x,0\n", "\"0x10\" is not a finite number"},
      {"a,t,y\n0X1P4,x,0\n", "\"0X1P4\" is not a finite number"},
      {"a,t,y\n1.5.2,x,0\n", "\"1.5.2\" is not a finite number"},
      {"a,t,y\n\xff\x01,x,0\n", "\"\\xff\\x01\" is not a finite number"},
      {"a,t,y\n" + std::string(100, '7') + "x,x,0\n", "7...\" is not a finite number"},
      {"a,t,y\nyes,x,0\n", "\"yes\" is not a finite number; \"kind\": \"categorical\" takes words"},
      {"a,t,y\n1,x,maybe\n", "/d.csv row 0: column \"y\": \"maybe\" is not in the vocabulary"},
      {"a,t,y\n1,x,0\n1,m\xfcl,0\n", "/d.csv row 1: column \"t\": \"m\\xfcl\" is not UTF-8"},
      {"a,b\xff,y\n1,x,0\n", "/d.csv header: \"b\\xff\" is not UTF-8"},
      {"\xff\xfe" + good, "/d.csv: is UTF-16"},
      {"PK\x03\x04" + good, "/d.csv: is no text: it is a zip archive"},
      {"\xfd\x37zXZ" + std::string(60, '\0'),
       "/d.csv: is no text: it is an xz file; unpack it, or pack it with gzip instead"},
      {"BZh91AY&SY" + good, "/d.csv: is no text: it is a bzip2 file"},
      {"a,t,y\r1,x,0\r2,y,1\r", "/d.csv: its lines end with CR alone"},
      {Gzip(good).substr(0, 20), "/d.csv: the gzip data ends too early"},
      {bad_gzip, "/d.csv: the gzip data is damaged"},
      {"a,t,y\n1,\"" + std::string(17 << 20, 'z'), "/d.csv row 0: the record is longer than"},
  };
  const json options =
      Options({"a", {{"column", "t"}, {"kind", "hashed"}, {"bins", 9}}},
              {{"column", "y"}, {"kind", "categorical"}, {"vocabulary", {"0", "1"}}});
  for (const auto& [text, message] : table) {
    MemoryFiles files;
    files.contents["/d.csv"] = text;
    const auto source = OpenCsv(files, options);
    INFO(message << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(std::string(source.status().message()).find(message) != std::string::npos);
  }
}

TEST_CASE("a bad value far into a csv file is an error of its batch alone") {
  std::string text = "a,y\n";
  for (int i = 0; i < 3000; ++i) text += i == 2345 ? "oops,1\n" : "1,0\n";
  MemoryFiles files;
  files.contents["/d.csv"] = text;
  const auto source = OpenCsv(files, Options({"a"}, "y"));
  REQUIRE(source.ok());
  Batch batch;
  CHECK((*source)->Read(std::vector<uint64_t>{2344, 2346}, batch).ok());
  CHECK((*source)->Read(std::vector<uint64_t>{2345}, batch).message() ==
        "/d.csv row 2345: column \"a\": \"oops\" is not a finite number; \"kind\": \"categorical\" "
        "takes words");
}

TEST_CASE(
    "an autoencoder learns the columns that it is given, and they may be prepared otherwise") {
  MemoryFiles files;
  files.contents["/d.csv"] = "a,b\n1,2\n3,4\n";
  const json label = {"b", {{"column", "a"}, {"mean", 1}, {"std", 2}}};
  const Batch batch = ReadAllRecords(OpenCsv(files, Options({"a", "b"}, label)));
  CHECK(batch.inputs[0].values == std::vector<float>{1, 2, 3, 4});
  CHECK(batch.targets[0].shape == std::vector<uint64_t>{2});
  CHECK(batch.targets[0].values == std::vector<float>{2, 0, 4, 1});
  const auto patterns = OpenCsv(files, Options({"*"}, {"*"}));
  CHECK(ReadAllRecords(patterns).targets[0].values == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("wrong options of csv data are refused by key, all at once") {
  MemoryFiles files;
  files.contents["/d.csv"] = "a,t,y\n1,x,0\n";
  files.contents["/words"] = "x\ny\nx\n";
  files.contents["/utf16"] = "\xff\xfex\n";
  files.contents["/latin1"] = "x\ncaf\xe9\n";
  files.contents["/twice.csv"] = "a,a,y\n1,9,0\n";
  const RefusedOptions table = {
      {json::object(), {"files: is missing", "features: is missing", "label: is missing"}},
      {{{"fiels", "/d.csv"}, {"features", {{{"colum", "a"}}}}, {"label", 1.5}},
       {"fiels: unknown key; did you mean `files`?", "features[0].column: is missing",
        "features[0].colum: unknown key", "label: must be the name or number"}},
      {Options({"b"}, "y"), {"features[0]: there is no column \"b\" in /d.csv"}},
      {{{"files", "/twice.csv"}, {"features", {"a"}}, {"label", "y"}},
       {"features[0]: there are several columns \"a\" in /twice.csv"}},
      {Options({"a", "x1"}, "z"), {"features[1]: there is no column", "label: there is no column"}},
      {Options({"a", 2}, "y"), {"features[1]: column 2 (from 0) is the label, too"}},
      {Options({3}, "y"), {"features[0]: there is no column 3 in /d.csv, which has 3"}},
      {Options(json::array(), "y"), {"features: names no column"}},
      {Options({{{"column", "t"}, {"kind", "categoric"}}}, "y"), {"features[0].kind"}},
      {Options({{{"column", "t"}, {"kind", "categorical"}}}, "y"),
       {"features[0].vocabulary: give either"}},
      {Options({{{"column", "t"}, {"kind", "categorical"}, {"vocabulary", {"x", "x"}}}}, "y"),
       {"features[0].vocabulary: holds \"x\" twice"}},
      {Options({{{"column", "t"}, {"kind", "categorical"}, {"vocabulary", {1}}}}, "y"),
       {"features[0].vocabulary: must be words, holds 1"}},
      {Options({{{"column", "t"}, {"kind", "categorical"}, {"vocabulary_file", "/words"}}}, "y"),
       {"/words: holds \"x\" twice"}},
      {Options({{{"column", "t"}, {"kind", "categorical"}, {"vocabulary_file", "/utf16"}}}, "y"),
       {"/utf16: is UTF-16; save it as UTF-8"}},
      {Options({{{"column", "t"}, {"kind", "categorical"}, {"vocabulary_file", "/latin1"}}}, "y"),
       {"/latin1 row 1: \"caf\\xe9\" is not UTF-8; save the file as UTF-8"}},
      {Options({{{"column", "t"}, {"kind", "hashed"}}}, "y"), {"features[0].bins: is missing"}},
      {Options({{{"columns", {"t"}}, {"kind", "crossed"}, {"bins", 0}}}, "y"),
       {"features[0].columns: must be a list of 2", "features[0].bins: must be an integer"}},
      {Options({"a", {{"column", "t"}, {"kind", "string"}}}, "y"),
       {"features[1]: is a string, but data (csv).features[0] of the same input is a number"}},
      {Options({"a"}, {{"column", "t"}, {"kind", "string"}}),
       {"label.kind: only features may be strings"}},
      {Options({{{"column", "a"}, {"std", 0}, {"default", "0"}}}, "y"),
       {"features[0].default: must be a number", "features[0].std: must be a number"}},
  };
  CheckRefused(table, [&](const json& options) { return OpenCsv(files, options); });
}

TEST_CASE("a file that loses a field later is an error also where the last file is empty") {
  const TestDirectory directory;
  PosixFiles files;
  json options = Options({0}, 1);
  options["header"] = false;
  options["files"] = {directory.Write("a", "1,2\n3,4\n"), directory.Write("b", "")};
  const OpenedSource source = OpenCsv(files, options);
  INFO(source.status());
  REQUIRE(source.ok());
  directory.Write("a", "1 2\n3 4\n");
  Batch batch;
  const absl::Status read = (*source)->Read(std::vector<uint64_t>{0}, batch);
  CHECK(read.message() == directory / "a" + " row 0: has 1 fields instead of 2");
}

class OneByte : public RecordCutter {
 public:
  absl::StatusOr<bool> Skip(FileCursor& cursor) const override {
    const auto text = cursor.Peek(1);
    if (!text.ok() || text->empty()) return false;
    cursor.Skip(1);
    return true;
  }
};

TEST_CASE("an index that may not grow still finds every record") {
  MemoryFiles files;
  std::string bytes(1000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31);
  files.contents["/a"] = bytes.substr(0, 333);
  files.contents["/b"] = bytes.substr(333);
  RecordIndex index(/*entries_max=*/10);
  for (const std::string path : {"/a", "/b"}) {
    REQUIRE(index.Add(path, *files.Open(path), 0, OneByte()).ok());
  }
  REQUIRE(index.records() == 1000);
  for (uint64_t record = 0; record < 1000; ++record) {
    auto cursor = index.Seek(record, OneByte());
    REQUIRE(cursor.ok());
    CHECK((*cursor->Peek(1))[0] == bytes[record]);
  }
  CHECK(index.Where(333) == "/b row 0");
}

TEST_CASE("a gzip file beyond the limit is refused with the limit") {
  MemoryFiles files;
  files.contents["/bomb.gz"] = Gzip(std::string(5 << 20, '0'));
  const auto file = OpenDataFile(files, "/bomb.gz", {.bytes_max = 1 << 20});
  REQUIRE_FALSE(file.ok());
  CHECK(file.status().message() ==
        "/bomb.gz: is more than 1048576 bytes when unpacked, which is done in memory; unpack it "
        "on disk");
  const auto memory = std::make_shared<MemoryShare>(3 << 20, 0);
  CHECK(OpenDataFile(files, "/bomb.gz", {.memory = memory}).status().message() ==
        "/bomb.gz: is more than 2097152 bytes when unpacked, which is done in memory, of which "
        "--memory-limit leaves 3.0 MiB to data; unpack it on disk");
  CHECK(memory->bytes() == 0);
}

}  // namespace
}  // namespace paracord
