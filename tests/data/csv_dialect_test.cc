// Tests CSV of other programs: without quotes, with escapes, in many files, and with more columns
// than a user wants to list.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "data/csv_text.h"
#include "data/data_options.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;
using Texts = std::vector<std::string>;

OpenedSource OpenDialect(Files& files, const json& options) {
  return OpenDataSource(files, {"csv", JsonOf(TextOf(options))});
}

const json kText = {{"column", "t"}, {"kind", "string"}};

json Options(const json& more) {
  json options = {{"files", "/d"}, {"features", json::array({kText})}, {"label", "y"}};
  if (more.is_object()) options.update(more);
  return options;
}

Texts Read(const std::string& text, const json& options) {
  MemoryFiles files;
  files.contents["/d"] = text;
  return ReadAllRecords(OpenDialect(files, options)).inputs[0].strings;
}

TEST_CASE("a dialect without quotes takes them as text") {
  const std::string text = "t\ty\n\"Oh\t1\nno\" he\t2\n\"quoted\"\t3\n";
  for (const json& none : {json(nullptr), json("")}) {
    CHECK(Read(text, Options({{"delimiter", "\t"}, {"quote", none}})) ==
          Texts{"\"Oh", "no\" he", "\"quoted\""});
  }
  CHECK(Read("t,y\n'a,b',1\n'it''s',2\n\"c\",3\n", Options({{"quote", "'"}})) ==
        Texts{"a,b", "it's", "\"c\""});
}

TEST_CASE("a delimiter may be several characters, of which one alone is text") {
  json options = Options({{"delimiter", "::"}, {"header", false}, {"label", 2}});
  options["features"][0].update({{"column", 1}, {"default", ""}});
  options["quote"] = nullptr;
  CHECK(Read("3::Ages: a film (1995)::1\n4::Other::2\n5::::3\n6:::x: y::4\n", options) ==
        Texts{"Ages: a film (1995)", "Other", "", ":x: y"});
  options["quote"] = "\"";
  CHECK(Read("3::\"a::b\"::1\n", options) == Texts{"a::b"});
  // A file's text comes in pieces, which may end within a delimiter.
  CsvFields fields;
  const CsvDialect dialect{.delimiter = "::"};
  const std::string record = "\"a\"::b::c\n";
  for (size_t size = 0; size < record.size(); ++size) {
    CHECK(ParseCsvRecord(record.substr(0, size), /*at_end=*/false, dialect, fields).value() == 0);
  }
  CHECK(ParseCsvRecord(record, /*at_end=*/false, dialect, fields).value() == record.size());
  CHECK(fields.values == std::vector<std::string_view>{"a", "b", "c"});
  CHECK(LinesWithinFields({{"x", "1\n2::3", "4"}, {}}, "::") == 0);
  CHECK(LinesWithinFields({{"x", "1\n2::3\n4"}, {}}, "::") == 0);
  CHECK(LinesWithinFields({{"x", "1\ny::2\nz::3"}, {}}, "::") == 2);
}

TEST_CASE("an escape makes the next character text, within quotes and outside") {
  const json options = Options({{"escape", "\\"}, {"missing", {"\\N"}}, {"label", "y"}});
  CHECK(Read("t,y\na\\,b,1\n\"say \\\"hi\\\"\\n\",2\nc\\\\,3\nd\\\ne,4\n\"f\"\"g\",5\n", options) ==
        Texts{"a,b", "say \"hi\"n", "c\\", "d\ne", "f\"g"});
  json with_default = options;
  with_default["features"][0]["default"] = "none";
  CHECK(Read("t,y\n\\N,1\n\\Nx,2\n", with_default) == Texts{"none", "Nx"});
  CHECK(Read("t,y\na\\,1\n", Options({})) == Texts{"a\\"});
}

TEST_CASE("wrong quotes and escapes are refused by key") {
  MemoryFiles files;
  files.contents["/d"] = "t,y\na,1\n";
  const RefusedOptions table = {
      {Options({{"quote", "ab"}}), {"quote: must be one character, or null"}},
      {Options({{"quote", false}}), {"quote: must be one character"}},
      {Options({{"escape", "\n"}}), {"escape: must be one character"}},
      {Options({{"escape", ","}}), {"escape: is the delimiter, too"}},
      {Options({{"delimiter", "'"}, {"quote", "'"}}), {"delimiter: must be"}}};
  CheckRefused(table, [&](const json& options) { return OpenDialect(files, options); });
}

TEST_CASE("lines that a missing quote has swallowed are a warning") {
  MemoryFiles files;
  files.contents["/d"] = "t\ty\n\"Oh\t1\nno\t2\nsay \"\t3\nx\t4\n";
  const auto swallowed = OpenDialect(files, Options({{"delimiter", "\t"}}));
  REQUIRE(swallowed.ok());
  CHECK((*swallowed)->records() == 2);
  REQUIRE((*swallowed)->Warnings().size() == 1);
  CHECK((*swallowed)->Warnings()[0] ==
        "quoted fields of the first records hold 2 ends of lines, first in /d row 0, with what "
        "looks like records between them; where a quote is text, say \"quote\": null");
  files.contents["/d"] =
      "x,t,y\n0,\"1 Main Street, Top\nSpringfield\",1\n0,\"a poem\nof two, or\nthree\",1\n";
  CHECK((*OpenDialect(files, Options({})))->Warnings().empty());
}

TEST_CASE("an empty file among others is skipped with a warning") {
  MemoryFiles files;
  files.contents["/a"] = "t,y\nx,1\n";
  files.contents["/b"] = "";
  files.contents["/c"] = Gzip("");
  files.contents["/d"] = "t,y\nz,2\n";
  const auto source = OpenDialect(files, Options({{"files", {"/b", "/a", "/c", "/d"}}}));
  CHECK(ReadAllRecords(source).inputs[0].strings == Texts{"x", "z"});
  CHECK((*source)->Warnings() == Texts{"2 files have no records and add nothing: /b, ..."});
  CHECK(OpenDialect(files, Options({{"files", {"/b", "/c"}}})).status().message() ==
        "/b: has no header");
  const auto skipped = OpenDialect(files, Options({{"files", {"/b", "/a"}}, {"skip_lines", 0}}));
  CHECK((*skipped)->records() == 1);
}

TEST_CASE("\"*\" stands for all columns except label, weight and those of other features") {
  MemoryFiles files;
  files.contents["/d"] = "a,t,y,b,w\n1,u,0,2,5\n3,v,1,4,6\n";
  json options = {
      {"files", "/d"},
      {"features", {"*", {{"column", "t"}, {"kind", "categorical"}, {"vocabulary", {"u", "v"}}}}},
      {"label", "y"},
      {"weight", "w"}};
  const Batch batch = ReadAllRecords(OpenDialect(files, options));
  CHECK(batch.inputs[0].values == Values{1, 2, 1, 3, 4, 2});
  CHECK(batch.targets[0].values == Values{0, 1});
  CHECK(batch.weights[0].values == Values{5, 6});

  files.contents["/d"] = "1,0,2\n3,1,4\n";
  options = {{"files", "/d"}, {"header", false}, {"features", "*"}, {"label", 1}};
  CHECK(ReadAllRecords(OpenDialect(files, options)).inputs[0].values == Values{1, 2, 3, 4});

  files.contents["/d"] = "y\n1\n";
  options = {{"files", "/d"}, {"features", {"y*"}}, {"label", "y"}, {"weight", "y"}};
  CHECK(ReadAllRecords(OpenDialect(files, options)).inputs[0].values ==
        Values{1});  // an autoencoder
  files.contents["/d"] = "y,z\n1,2\n";
  options = {{"files", "/d"}, {"features", {"y*"}}, {"label", {"y", "z"}}};
  CHECK(OpenDialect(files, options)
            .status()
            .message()
            .find("matches no column but label and weight") != std::string::npos);
}

TEST_CASE("words are shown as JSON, which a job may hold, and other bytes escaped") {
  CHECK(Quoted("K\xc3\xb6ln") == "\"K\xc3\xb6ln\"");
  CHECK(Quoted("it's \"a\"\t\\") == R"("it's \"a\"\t\\")");
  CHECK(Quoted("K\xf6ln") == R"("K\xf6ln")");
  // A cut does not divide a character.
  CHECK(Quoted(std::string(39, 'x') + "\xc3\xb6") == "\"" + std::string(39, 'x') + "...\"");

  MemoryFiles files;
  files.contents["/d"] = "t,y\nK\xc3\xb6ln,1\n\"a \"\"b\"\"\",2\n";
  const auto source = OpenDialect(files, Options({{"features", "t"}}));
  REQUIRE_FALSE(source.ok());
  const std::string error(source.status().message());
  const std::string says = "; the first records have \"vocabulary\": ";
  INFO(error);
  REQUIRE(error.find(says) != std::string::npos);
  CHECK(JsonOf(error.substr(error.find(says) + says.size())) == json({"K\xc3\xb6ln", "a \"b\""}));
}

TEST_CASE(
    "a vocabulary that lacks some words is a warning, unless the job says how it takes them") {
  MemoryFiles files;
  const auto warnings = [&](int unknown, json more) {
    std::string& text = files.contents["/d"] = "t,y\n";
    for (int i = 0; i < 200; ++i) absl::StrAppend(&text, i < unknown ? i % 5 : 9, ",1\n");
    json feature = {{"column", "t"}, {"kind", "categorical"}, {"vocabulary", {"9"}}};
    if (more.is_object()) feature.update(more);
    const auto source = OpenDialect(files, Options({{"features", json::array({feature})}}));
    return (*source)->Warnings();
  };
  CHECK(
      warnings(30, {}) ==
      Texts{"data (csv).features[0]: the vocabulary lacks 30 of the first 200 values, as \"0\", "
            "\"1\", \"2\"; all of them are one unknown word to the model; where that is meant, say "
            "\"oov\": 1"});
  CHECK(warnings(2, {}).empty());  // one in a hundred
  CHECK(warnings(3, {}).size() == 1);
  CHECK(warnings(30, {{"oov", 1}}).empty());
  // A default is what the job chose for missing values.
  const Texts fewer = warnings(30, {{"default", "2"}});
  REQUIRE(fewer.size() == 1);
  CHECK(fewer[0].find("lacks 24 of the first 194 values") != std::string::npos);
}

TEST_CASE("a vocabulary that has none of the values is a warning") {
  MemoryFiles files;
  files.contents["/d"] = "t,y\n1.0,1\n2.0,2\n";
  json feature = {{"column", "t"}, {"kind", "categorical"}, {"vocabulary", {"1", "2"}}};
  const auto unknown = OpenDialect(files, Options({{"features", json::array({feature})}}));
  REQUIRE(unknown.ok());
  CHECK((*unknown)->Warnings() ==
        Texts{"data (csv).features[0]: the vocabulary knows none of the first 2 values, as "
              "\"1.0\", \"2.0\"; all are one unknown word to the model"});
  files.contents["/d"] = "t,y\n1.0,1\n2,2\n";
  feature["oov"] = 1;
  CHECK((*OpenDialect(files, Options({{"features", json::array({feature})}})))->Warnings().empty());
}

TEST_CASE("zeros behind a gzip file are no data, and anything else is damage") {
  const std::string one = Gzip("t,y\nx,1\n"), two = Gzip("z,2\n");
  CHECK(Read(one + std::string(1000, '\0'), Options({})) == Texts{"x"});
  CHECK(Read(one + std::string(600000, '\0') + two + std::string(3, '\0'), Options({})) ==
        Texts{"x", "z"});
  MemoryFiles files;
  files.contents["/d"] = one + std::string(1000, '\0') + "rest";
  CHECK(OpenDialect(files, Options({})).status().message().find("/d: the gzip data is damaged") ==
        0);
}

}  // namespace
}  // namespace paracord
