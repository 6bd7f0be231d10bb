// Tests numpy arrays of strings.
#include <catch2/catch.hpp>

#include "common/json_text.h"
#include "data/array.h"
#include "data/memory_files.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

std::string TextNpy(const std::string& descr, const std::string& shape, const std::string& elements,
                    const std::string& fortran = "False") {
  const std::string dict =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  file += static_cast<char>(dict.size());
  file += '\0';
  return file + dict + elements;
}

// Returns characters below U+10000 as numpy stores code points.
std::string CodePoints(const std::u16string& text, bool big_endian) {
  std::string bytes;
  for (const char16_t c : text) {
    const std::string low = {static_cast<char>(c & 0xff), static_cast<char>(c >> 8)};
    bytes += big_endian ? std::string(2, '\0') + low[1] + low[0] : low + std::string(2, '\0');
  }
  return bytes;
}

OpenedSource OpenArray(Files& files, const json& options) {
  return OpenDataSource(files, {"npy", JsonOf(TextOf(options))});
}

const std::string kLabels = TextNpy("|u1", "(2,)", std::string("\0\1", 2));
const json kOptions = {{"features", "/x"}, {"labels", "/y"}};

TEST_CASE("arrays of strings are read, of bytes and of code points, in any order") {
  const std::u16string points = {u'a', 0, u'\xe9', u'\x20ac', 0, 0, u'b', u'c'};
  const std::pair<std::string, Texts> files[] = {
      {TextNpy("|S2", "(2, 2)", std::string("a\0\xc3\xa9\0\0bc", 8)), {"a", "\xc3\xa9", "", "bc"}},
      {TextNpy("<U2", "(2, 2)", CodePoints(points, false)),
       {"a", "\xc3\xa9\xe2\x82\xac", "", "bc"}},
      {TextNpy(">U2", "(2, 2)", CodePoints(points, true)), {"a", "\xc3\xa9\xe2\x82\xac", "", "bc"}},
      {TextNpy("<U2", "(2, 2)", CodePoints(points, false), "True"),
       {"a", "", "\xc3\xa9\xe2\x82\xac", "bc"}}};
  for (const auto& [file, texts] : files) {
    MemoryFiles memory;
    memory.contents["/x"] = file;
    memory.contents["/y"] = kLabels;
    const auto source = OpenArray(memory, kOptions);
    const Batch batch = ReadAllRecords(source);
    CHECK(batch.inputs[0].text);
    CHECK(batch.inputs[0].values.empty());
    CHECK(batch.inputs[0].shape == std::vector<uint64_t>{2});
    CHECK(batch.inputs[0].strings == texts);
  }
}

TEST_CASE("strings beyond what is held are read from the file") {
  MemoryFiles files;
  files.contents["/x"] = TextNpy("|S2", "(2,)", "abcd");
  const auto stream = ByteStream::Open(files, "/x");
  Array array(/*held_max=*/2);
  REQUIRE(array.Append(*ReadNpyHeader(**stream), **stream).ok());
  std::string text;
  REQUIRE(array.ReadTexts(1, &text).ok());
  CHECK(text == "cd");
}

TEST_CASE("strings in a place for numbers, and arrays of Python objects, are refused by file") {
  const std::string words = TextNpy("|S2", "(2,)", "abcd");
  const std::tuple<std::string, std::string, const char*> cases[] = {
      {TextNpy("|O", "(2,)", "????"), kLabels, "/x: holds objects of Python"},
      {TextNpy("|S0", "(2,)", ""), kLabels, "/x: has strings of 0 characters"},
      {TextNpy("<M8[ns]", "(2,)", ""), kLabels, "/x: elements of type <M8[ns] are not supported"},
      {kLabels, words, "/y row 0: `labels` are strings; give numbers"},
  };
  for (const auto& [x, y, message] : cases) {
    MemoryFiles files;
    files.contents["/x"] = x;
    files.contents["/y"] = y;
    const auto source = OpenArray(files, kOptions);
    INFO(message << "\n got " << source.status());
    CHECK(source.status().message().find(message) != std::string::npos);
  }
  MemoryFiles files;
  files.contents["/x"] = TextNpy("|S1", "(2,)", "a\xff");
  files.contents["/y"] = kLabels;
  const auto source = OpenArray(files, kOptions);
  REQUIRE(source.ok());
  Batch batch;
  CHECK((*source)->Read(std::vector<uint64_t>{1}, batch).message() ==
        "/x row 1: \"\\xff\" is not UTF-8; save the strings as numpy's str");
}

}  // namespace
}  // namespace paracord
