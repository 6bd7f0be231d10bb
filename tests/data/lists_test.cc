// Tests lists of varying length, parsed as by TensorFlow (tests/golden/make_data.py).
#include <catch2/catch.hpp>

#include "absl/strings/escaping.h"
#include "common/json_text.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "tests/data/source_testing.h"
#include "tests/golden/golden.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;
using Texts = std::vector<std::string>;

OpenedSource Open(Files& files, const std::string& format, const json& features) {
  const json options = {{"files", "/d"}, {"features", features}, {"label", "y"}};
  return OpenDataSource(files, {format, JsonOf(TextOf(options))});
}

void CheckList(const Batch& batch, const json& wanted) {
  REQUIRE(batch.inputs.size() == 2);
  if (batch.inputs[0].text) {
    CHECK(batch.inputs[0].strings == wanted["values"].get<Texts>());
  } else if (wanted["values"][0].is_number_float()) {
    CHECK(batch.inputs[0].values == wanted["values"].get<Values>());
  } else {
    std::vector<int64_t> whole;
    REQUIRE_FALSE(WholeNumbers(batch.inputs[0], whole).has_value());
    CHECK(whole == wanted["values"].get<std::vector<int64_t>>());
  }
  CHECK(batch.inputs[1].name == "there");
  CHECK(batch.inputs[1].values == wanted["present"].get<Values>());
}

TEST_CASE("lists of examples are those that TensorFlow parses, cut off and filled up") {
  const json golden = GoldenJson("lists.json");
  Texts records;
  for (const json& record : golden["records"]) {
    REQUIRE(absl::Base64Unescape(record.get<std::string>(), &records.emplace_back()));
  }
  MemoryFiles files;
  files.contents["/d"] = Container(records);
  for (const std::string name : {"film", "word", "share"}) {
    for (const std::string cut : {"pre", "post"}) {
      INFO(name << " " << cut);
      json feature = {{"name", name},  {"shape", json::array({golden["length"]})},
                      {"pad", 0},      {"truncate", cut},
                      {"input", name}, {"present", "there"}};
      if (name == "word") feature["dtype"] = "string", feature["pad"] = "[P]";
      CheckList(ReadAllRecords(Open(files, "tfrecord", json::array({feature}))), golden[name][cut]);
    }
  }
}

TEST_CASE("lists in a field of csv are those that TensorFlow splits") {
  const json golden = GoldenJson("lists.json");
  MemoryFiles files;
  files.contents["/d"] = golden["csv"];
  for (const std::string kind : {"numeric", "id"}) {
    for (const std::string cut : {"pre", "post"}) {
      INFO(kind << " " << cut);
      const json feature = {{"column", "film"},           {"kind", kind},    {"separator", "|"},
                            {"length", golden["length"]}, {"truncate", cut}, {"input", "film"},
                            {"present", "there"}};
      CheckList(ReadAllRecords(Open(files, "csv", json::array({feature}))),
                golden["csv_film"][cut]);
    }
  }
}

TEST_CASE("lists of a field hold values of every kind") {
  MemoryFiles files;
  files.contents["/d"] = "g,w,y\nwar|drama,1.5|2,1\n,,2\nfun||war,3||4,3\n";
  const json list = {{"separator", "|"}, {"length", 3}};
  const auto read = [&](json feature) {
    feature.update(list);
    return ReadAllRecords(Open(files, "csv", json::array({feature}))).inputs[0];
  };
  CHECK(read({{"column", "g"},
              {"kind", "categorical"},
              {"vocabulary", {"war", "drama"}},
              {"default", "none"}})
            .values == Values{1, 2, 0, 0, 0, 0, 0, 0, 1});
  CHECK(read({{"column", "g"}, {"kind", "string"}, {"default", "-"}, {"pad", "."}}).strings ==
        Texts{"war", "drama", ".", ".", ".", ".", "fun", "-", "war"});
  CHECK(read({{"column", "g"}, {"kind", "hashed"}, {"bins", 1}, {"default", ""}, {"pad", -1}})
            .values == Values{0, 0, -1, -1, -1, -1, 0, 0, 0});
  CHECK(read({{"column", "w"}, {"default", 9}}).values == Values{1.5, 2, 0, 0, 0, 0, 3, 9, 4});
}

// The values are those of Keras 3.15: StringLookup(vocabulary=["war", "drama"], mask_token="") with
// 1 and with 2 num_oov_indices, and Hashing(101, mask_value="").
TEST_CASE("with a mask padding is 0 alone, and unknown words, words and bins follow") {
  MemoryFiles files;
  files.contents["/d"] = "g,y\nwar|drama,1\n,2\nfun|war,3\n";
  files.contents["/words"] = "war\ndrama\n";
  const auto read = [&](const json& more) {
    json feature = {{"column", "g"}, {"separator", "|"}, {"length", 3}, {"kind", "categorical"}};
    feature.update(more);
    const OpenedSource source = Open(files, "csv", json::array({feature}));
    REQUIRE(source.ok());
    return std::pair(ReadAllRecords(source).inputs[0].values, (*source)->Warnings());
  };
  const json words = {{"vocabulary", {"war", "drama"}}, {"oov", 1}};
  const auto with = [](json value, const json& more) {
    value.update(more);
    return value;
  };
  const auto [mixed, doubts] = read(words);
  CHECK(mixed == Values{1, 2, 0, 0, 0, 0, 0, 1, 0});
  CHECK(doubts == Texts{"data (csv).features[0]: its padding, 0, is the number of unknown words, "
                        "too, and the model cannot tell them apart; with \"mask\": true only "
                        "padding is 0, and the other numbers begin at 1"});
  for (const json& each : {words, json{{"vocabulary_file", "/words"}, {"oov", 1}}}) {
    const auto [apart, none] = read(with(each, {{"mask", true}}));
    CHECK(apart == Values{2, 3, 0, 0, 0, 0, 1, 2, 0});
    CHECK(none.empty());
  }
  CHECK(read(with(words, {{"mask", true}, {"oov", 2}})).first == Values{3, 4, 0, 0, 0, 0, 1, 3, 0});
  CHECK(read(with(words, {{"oov", 0}, {"vocabulary", {"fun", "war", "drama"}}})).second.size() ==
        1);
  CHECK(read(with(words, {{"present", "there"}})).second.empty());
  CHECK(read(with(words, {{"pad", -1}})).second.empty());
  CHECK(read(with(words, {{"pad", 3}})).second.empty());
  const json hashed = {{"kind", "hashed"}, {"bins", 101}};
  CHECK(read(hashed).second.size() == 1);
  const auto [bins, none] = read(with(hashed, {{"mask", true}}));
  CHECK(none.empty());
  CHECK(bins == Values{52, 62, 0, 0, 0, 0, 15, 52, 0});
}

TEST_CASE("a list that does not fit is refused with what would make it fit") {
  MemoryFiles files;
  files.contents["/d"] = "g,y\n1|2,1\n1|2|3,2\n";
  const json list = {{"column", "g"}, {"separator", "|"}, {"length", 2}};
  const auto with = [&](const json& more) {
    json feature = list;
    feature.update(more);
    return json::array({feature});
  };
  json no_length = list;
  no_length.erase("length");
  CheckRefused(
      {{with(json::object()),
        {"/d row 1", "has 3 values, more than 2; give a larger `length`, or `truncate`"}},
       {with({{"truncate", "post"}, {"separator", "||"}}), {"separator: must be one character"}},
       {with({{"truncate", "middle"}}), {"truncate"}},
       {with({{"truncate", "post"}, {"input", "a"}, {"present", "a"}}),
        {"present: must be another input"}},
       {json::array({no_length}), {"features[0].length: is missing"}},
       {with({{"kind", "categorical"}, {"vocabulary", {"1"}}, {"one_hot", true}}),
        {"one_hot: is for one word"}},
       {with({{"kind", "categorical"}, {"vocabulary", {"1"}}, {"mask", true}, {"pad", 1}}),
        {"pad: has to be 0 with `mask`"}},
       {with({{"kind", "hashed"}, {"bins", 1}, {"mask", true}}), {"bins: is 1, and bin 0"}},
       {with({{"mask", true}, {"truncate", "post"}}), {"mask: unknown key"}}},
      [&](const json& features) { return Open(files, "csv", features); });
  CheckRefused({{json::array({json{{"name", "g"}, {"shape", {2}}, {"present", "p"}}}),
                 {"present: is for lists of numbers or strings with a `pad`"}}},
               [&](const json& features) { return Open(files, "tfrecord", features); });
}

}  // namespace
}  // namespace paracord
