#include <catch2/catch.hpp>
#include <map>

#include "common/json_text.h"
#include "common/utf8.h"
#include "data/memory_files.h"
#include "data/packing.h"
#include "data/text_tokens.h"
#include "tests/data/source_testing.h"

namespace paracord {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

OpenedSource OpenText(MemoryFiles& files, const json& options) {
  return OpenDataSource(files, {"text", JsonOf(TextOf(options))});
}

Batch ReadAll(MemoryFiles& files, const json& options) {
  return ReadAllRecords(OpenText(files, options));
}

TEST_CASE("UTF-8 is RFC 3629's and nothing else") {
  const std::vector<std::pair<std::string, uint32_t>> good = {{std::string("\0", 1), 0},
                                                              {"a", 'a'},
                                                              {"\x7f", 0x7f},
                                                              {"\xc2\x80", 0x80},
                                                              {"\xdf\xbf", 0x7ff},
                                                              {"\xe0\xa0\x80", 0x800},
                                                              {"\xed\x9f\xbf", 0xd7ff},
                                                              {"\xee\x80\x80", 0xe000},
                                                              {"\xf0\x90\x80\x80", 0x10000},
                                                              {"\xf4\x8f\xbf\xbf", 0x10ffff}};
  for (const auto& [text, code] : good) {
    CHECK(FirstUtf8(text).code == code);
    CHECK(FirstUtf8(text).bytes == text.size());
    CHECK(FirstUtf8(text.substr(0, text.size() - 1)).bytes == 0);
  }
  for (const std::string text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2z", "\xe2\x82z"}) {
    CHECK(FirstUtf8(text).bytes == 0);
  }
}

TEST_CASE("windows of characters have the next character as target at every place") {
  MemoryFiles files;
  files.contents["/t"] =
      "abcab\xc3\xa4"
      "ca";  // a b c a b ä c a
  const Batch batch = ReadAll(files, {{"files", "/t"}, {"window", 3}, {"stride", 2}});
  CHECK(batch.examples == 3);
  CHECK(batch.inputs[0].shape == std::vector<uint64_t>{3});
  CHECK(batch.targets[0].shape == std::vector<uint64_t>{3});
  CHECK(batch.inputs[0].values == Values{0, 1, 2, 2, 0, 1, 1, 3, 2});
  CHECK(batch.targets[0].values == Values{1, 2, 0, 0, 1, 3, 3, 2, 0});
}

TEST_CASE("every window of every stride is the text at its place") {
  std::vector<std::string> characters;
  for (int i = 0; i < 700; ++i) {
    const int code = (i * i + i / 7) % 64;
    characters.push_back(code % 3 == 2 ? std::string("\xe2\x82") + static_cast<char>(0x80 + code)
                                       : std::string(1, static_cast<char>(' ' + code)));
  }
  std::map<std::string, float> numbers;
  std::string text;
  for (const std::string& character : characters) {
    numbers[character] = 0;
    text += character;
  }
  float next = 0;
  for (auto& [character, number] : numbers) number = next++;
  for (const bool packed : {false, true}) {
    for (const uint64_t window : {1u, 5u, 64u, 699u}) {
      for (uint64_t stride = 1; stride <= window; stride = stride * 2 + 1) {
        MemoryFiles files;
        files.contents["/t"] = packed ? Gzip(text) : text;
        const Batch batch =
            ReadAll(files, {{"files", "/t"}, {"window", window}, {"stride", stride}});
        REQUIRE(batch.examples == (700 - window - 1) / stride + 1);
        Values inputs, targets;
        for (size_t record = 0; record < batch.examples; ++record) {
          for (size_t i = 0; i < window; ++i) {
            inputs.push_back(numbers[characters[record * stride + i]]);
            targets.push_back(numbers[characters[record * stride + i + 1]]);
          }
        }
        CHECK(batch.inputs[0].values == inputs);
        CHECK(batch.targets[0].values == targets);
      }
    }
  }
}

TEST_CASE("words are numbered by how often they occur, after padding and unknown") {
  MemoryFiles files;
  files.contents["/t"] = "the cat\n the  dog the cat. A\tcat,";
  json options = {{"files", "/t"},
                  {"unit", "word"},
                  {"window", 2},
                  {"lowercase", true},
                  {"strip_punctuation", true}};
  // The tokens are: the cat the dog the cat a cat. Counts: cat 3, the 3, a 1, dog 1.
  Batch batch = ReadAll(files, options);
  CHECK(batch.inputs[0].values == Values{3, 2, 3, 5, 3, 2});
  CHECK(batch.targets[0].values == Values{2, 3, 5, 3, 2, 4});
  options["vocabulary"] = 1;
  CHECK(ReadAll(files, options).inputs[0].values == Values{1, 2, 1, 1, 1, 2});
  files.contents["/words"] = Gzip("dog\nthe\n");
  options.erase("vocabulary");
  options["vocabulary_file"] = "/words";
  CHECK(ReadAll(files, options).inputs[0].values == Values{3, 1, 3, 2, 3, 1});
  options.erase("vocabulary_file");
  files.contents["/other"] = "dog";
  options["vocabulary_from"] = "/other";
  CHECK(ReadAll(files, options).inputs[0].values == Values{1, 1, 1, 2, 1, 1});
}

TEST_CASE("a vocabulary of more than 2^23 words is refused") {
  const std::vector<std::string> words(kVocabularyMax + 1);
  CHECK(Vocabulary::Listed(words).status().message() == "holds 8388609 words, more than 8388608");
}

TEST_CASE("labelled lines are cut off or filled to the window") {
  MemoryFiles files;
  files.contents["/t"] = "good\tfine fine day\r\n\nbad\train\nbad\t\ngood\ta b c d e";
  json options = {{"files", "/t"},
                  {"unit", "word"},
                  {"window", 3},
                  {"labels", {"bad", "good"}},
                  {"vocabulary", {"fine", "rain", "a"}}};
  const Batch batch = ReadAll(files, options);
  CHECK(batch.targets[0].shape.empty());
  CHECK(batch.targets[0].values == Values{1, 0, 0, 1});
  CHECK(batch.inputs[0].values == Values{2, 2, 1, 3, 0, 0, 0, 0, 0, 4, 1, 1});
  options["unit"] = "character";
  options.erase("vocabulary");
  options["vocabulary"] = 2;  // the space, then the first of the characters that occur three times
  CHECK(OpenText(files, options).ok());
}

TEST_CASE("a byte-order mark is no part of the text") {
  MemoryFiles files;
  files.contents["/t"] =
      "\xef\xbb\xbf"
      "abab";
  files.contents["/v"] =
      "\xef\xbb\xbf"
      "b\na\n";
  files.contents["/w"] =
      "\xef\xbb\xbf"
      "a b a";
  files.contents["/l"] =
      "\xef\xbb\xbf"
      "a\tb\n";
  files.contents["/gz"] = Gzip(files.contents["/t"]);
  for (const char* path : {"/t", "/gz"}) {
    CHECK(ReadAll(files, {{"files", path}, {"window", 3}}).inputs[0].values == Values{0, 1, 0});
  }
  json words = {{"files", "/w"}, {"unit", "word"}, {"window", 2}, {"vocabulary_file", "/v"}};
  CHECK(ReadAll(files, words).inputs[0].values == Values{3, 2});
  words = {{"files", "/l"}, {"window", 1}, {"labels", {"a"}}, {"vocabulary", {"b"}}};
  CHECK(ReadAll(files, words).targets[0].values == Values{0});
  files.contents["/t"] = std::string(
      "\xff\xfe"
      "a\0b\0",
      6);
  CHECK(OpenText(files, {{"files", "/t"}, {"window", 1}}).status().message() ==
        "/t: is UTF-16; save it as UTF-8");
}

TEST_CASE("an unknown character is an error where the text is, a word only without a number") {
  MemoryFiles files;
  files.contents["/t"] =
      "abab\xe2\x82\xac"
      "ab";
  files.contents["/v"] = "ab";
  const auto source = OpenText(files, {{"files", "/t"}, {"window", 2}, {"vocabulary_from", "/v"}});
  REQUIRE_FALSE(source.ok());
  CHECK(source.status().message() ==
        "/t row 1: the character \"\xe2\x82\xac\" is not in the vocabulary");
}

TEST_CASE("fingerprints of text tell vocabularies and contents apart") {
  const auto fingerprint = [](const std::string& text, const json& vocabulary) {
    MemoryFiles files;
    files.contents["/t"] = text;
    const auto source =
        OpenText(files, {{"files", "/t"}, {"window", 2}, {"vocabulary", vocabulary}});
    REQUIRE(source.ok());
    return (*source)->fingerprint();
  };
  const std::string base = fingerprint("abcabc", {"a", "b"});
  CHECK(fingerprint("abcabc", {"a", "b"}) == base);
  CHECK(fingerprint("abcabd", {"a", "b"}) != base);
  CHECK(fingerprint("abcabc", {"b", "a"}) != base);
}

TEST_CASE("damaged text is refused by file, row and byte") {
  std::string late(200000, 'x');
  late[150000] = '\xff';
  const std::vector<std::tuple<json, std::string, std::string>> table = {
      {{}, "", "/t: has no window of 4 tokens"},
      {{}, "abc", "/t: has no window of 4 tokens"},
      {{},
       "ab\xff"
       "cdefgh",
       "/t: byte 2 is not UTF-8"},
      {{}, "abcdefgh\xe2\x82", "/t: byte 8 is not UTF-8"},
      {{}, late, "/t: byte 150000 is not UTF-8"},
      {{{"vocabulary", {"x"}}}, late, "/t row 50000: byte 150000 is not UTF-8"},
      {{{"unit", "word"}}, "a b c \xc0\x80 d", "/t: byte 6 is not UTF-8"},
      {{{"unit", "word"}}, std::string(3 << 20, 'w'), "/t: byte 0 begins a word longer than"},
      {{{"labels", {"a"}}}, "a\tx\nb\ty\n", "/t row 1: the label \"b\" is not in `labels`"},
      {{{"labels", {"a"}}}, "a\tx\na y\n", "/t row 1: has no tab between label and text"},
      {{{"labels", {"a"}}}, "a\tx\na\ty\xff\n", "/t: byte 7 is not UTF-8"},
      {{{"labels", {"a"}}}, "\n\n", "/t: has no records"},
      {{}, Gzip("abcdefghijkl").substr(0, 22), "/t: the gzip data ends too early"},
  };
  for (const auto& [more, text, message] : table) {
    MemoryFiles files;
    files.contents["/t"] = text;
    json options = {{"files", "/t"}, {"window", 3}};
    options.update(more.is_null() ? json::object() : more);
    const auto source = OpenText(files, options);
    INFO(message << "\n got " << source.status());
    REQUIRE_FALSE(source.ok());
    CHECK(std::string(source.status().message()).find(message) != std::string::npos);
  }
}

TEST_CASE("wrong options of text are refused by key, all at once") {
  MemoryFiles files;
  files.contents["/t"] = "abcdefghijk";
  const RefusedOptions table = {
      {json::object(), {"files: is missing", "window: is missing"}},
      {{{"files", "/t"}, {"window", 4}, {"stride", 5}, {"unit", "char"}},
       {"stride: must be an integer from 1 to 4", "unit: is \"char\""}},
      {{{"files", "/t"}, {"window", 4}, {"labels", {"a"}}, {"stride", 1}}, {"stride: unknown key"}},
      {{{"files", "/t"}, {"window", 4}, {"vocabulary", {"a"}}, {"vocabulary_file", "/t"}},
       {"vocabulary: comes from one of", "vocabulary_file: is for words"}},
      {{{"files", "/t"}, {"window", 4}, {"vocabulary", {"a", "a"}}},
       {"data (text).vocabulary: holds \"a\" twice"}},
      {{{"files", "/t"}, {"window", 4}, {"labels", {"a", "b", "b"}}},
       {"data (text).labels: holds \"b\" twice"}},
  };
  CheckRefused(table, [&](const json& options) { return OpenText(files, options); });
}

}  // namespace
}  // namespace paracord
