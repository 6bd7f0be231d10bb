// Tests readers of records for prediction, which need no labels.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "tests/data/memory_files.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

OpenedSource OpenInputs(Files& files, const std::string& format, const json& options) {
  DataSpec spec{format, JsonOf(TextOf(options))};
  spec.inputs_alone = true;
  return OpenDataSource(files, spec);
}

Batch ReadInputs(Files& files, const std::string& format, const json& options) {
  const Batch batch = ReadAllRecords(OpenInputs(files, format, options));
  CHECK(batch.targets.empty());
  CHECK(batch.weights.empty());
  return batch;
}

TEST_CASE("a csv may lack columns that labels alone need, and a pattern takes none of them in") {
  MemoryFiles files;
  const json options = {
      {"files", "/d.csv"}, {"features", "*"}, {"label", "y"}, {"weight", {{"column", "w"}}}};
  files.contents["/d.csv"] = "a,b\n1,2\n3,4\n";
  CHECK(ReadInputs(files, "csv", options).inputs[0].values == Values{1, 2, 3, 4});
  files.contents["/d.csv"] = "a,y,w,b\n1,no number,,2\n3,,,4\n";
  CHECK(ReadInputs(files, "csv", options).inputs[0].values == Values{1, 2, 3, 4});
  json without = options;
  without.erase("label");
  without.erase("weight");
  CHECK(
      ReadInputs(files, "csv", {{"files", "/d.csv"}, {"features", {"b", "a"}}}).inputs[0].values ==
      Values{2, 1, 4, 3});
  json named = options;
  named["features"] = {"a", "c"};
  const OpenedSource refused = OpenInputs(files, "csv", named);
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string(refused.status().message()).find("\"c\"") != std::string::npos);
}

TEST_CASE("files of other formats in a folder of pictures to predict are named by their endings") {
  MemoryFiles files;
  files.contents = {{"/d/x.gif", ""}, {"/d/y.bmp", ""}, {"/d/.z.gif", ""}};
  const OpenedSource refused = OpenInputs(files, "images", {{"folder", "/d"}, {"size", {4, 4}}});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message() ==
        "/d: 2 files are left out (1 of .bmp, 1 of .gif): .jpg, .jpeg and .png are read; save "
        "other images as one of these");
}

TEST_CASE("fields of a csv are copied as the file has them") {
  MemoryFiles files;
  files.contents["/d.csv"] = "id,a\n\"7, 8\",1\n09,2\n";
  const OpenedSource source = OpenInputs(files, "csv", {{"files", "/d.csv"}, {"features", "a"}});
  REQUIRE(source.ok());
  const std::vector<std::string> names = {"a", "id"};
  const std::vector<uint64_t> records = {1, 0};
  CHECK(*(*source)->Fields(records, names) == std::vector<std::string>{"2", "09", "1", "7, 8"});
  const std::vector<std::string> wrong = {"idd"};
  const auto refused = (*source)->Fields({}, wrong);
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string(refused.status().message()).find("\"idd\"") != std::string::npos);
}

TEST_CASE("labelled lines may have no label, and crops stay in the middle") {
  MemoryFiles files;
  files.contents["/t"] = "good\ta b\nb a\nb\ta\n";
  const json options = {{"files", "/t"},
                        {"labels", {"bad", "good"}},
                        {"unit", "word"},
                        {"window", 2},
                        {"vocabulary", {"a", "b"}}};
  CHECK(ReadInputs(files, "text", options).inputs[0].values == Values{2, 3, 3, 2, 3, 2});
}

TEST_CASE("arrays need no labels, which are not even opened") {
  MemoryFiles files;
  files.contents["/x"] = std::string("\0\0\x08\x01\0\0\0\x02", 8) + "ab";
  CHECK(ReadInputs(files, "idx", {{"features", "/x"}}).inputs[0].values == Values{97, 98});
  CHECK(ReadInputs(files, "idx", {{"features", "/x"}, {"labels", "/no"}, {"weights", "/no"}})
            .inputs[0]
            .values == Values{97, 98});
}

}  // namespace
}  // namespace paracord
