// Pages that users read first stay short: README and docs/.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/common/source_tree.h"

namespace paracord {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadmeLinesMax = 150;
constexpr size_t kReadmeWordsMax = 1300;
constexpr size_t kParagraphWordsMax = 80;
constexpr size_t kCellWordsMax = 40;

size_t Words(const std::string& text) {
  std::istringstream in(text);
  return static_cast<size_t>(
      std::distance(std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()));
}

// Returns README and the pages of docs/.
std::vector<fs::path> Pages() {
  const fs::path root = PARACORD_SOURCE_DIR;
  std::vector<fs::path> pages = {root / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  return pages;
}

// A unit of reading: a table cell or a paragraph. An item of a list is a paragraph.
struct Part {
  bool cell = false;
  size_t line = 0;  // from 1
  std::string text;
};

// Cuts a page into units. Code, headings and comments are left out.
std::vector<Part> PartsOf(const std::vector<std::string>& lines) {
  static const std::regex item(R"(^\s*([-*]|\d+\.) .*)");
  static const std::regex none(R"(^\s*$|^#.*|^<!--.*)");
  std::vector<Part> parts;
  bool code = false, open = false;  // open: the unit continues on the next line
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const bool fence = line.starts_with("```");
    code ^= fence;
    if (fence || code || std::regex_match(line, none)) {
      open = false;
    } else if (line.starts_with("|")) {
      std::istringstream row(line.substr(1));
      for (std::string cell; std::getline(row, cell, '|');) parts.push_back({true, i + 1, cell});
      open = false;
    } else {
      if (!open || std::regex_match(line, item)) parts.push_back({false, i + 1, ""});
      parts.back().text += line + " ";
      open = true;
    }
  }
  return parts;
}

TEST_CASE("a page is cut into cells and paragraphs, without its code") {
  const std::vector<Part> parts =
      PartsOf({"# Title", "One", "two.", "", "- an item", "  of two lines", "- another", "```sh",
               "no words", "```", "<!-- none -->", "| a b | c |", "Three."});
  std::string all;
  for (const Part& part : parts) all += (part.cell ? "[" : "(") + part.text + ")";
  CHECK(all == "(One two. )(- an item   of two lines )(- another )[ a b )[ c )(Three. )");
  CHECK(parts.back().line == 13);
  CHECK(Words("  two  words\n") == 2);
}

TEST_CASE("README is a page that people read to its end") {
  const std::vector<std::string> lines = ReadLines(fs::path(PARACORD_SOURCE_DIR) / "README.md");
  size_t words = 0;
  for (const std::string& line : lines) words += Words(line);
  CHECK(lines.size() <= kReadmeLinesMax);
  CHECK(words <= kReadmeWordsMax);
}

TEST_CASE("no page has a paragraph of more than 80 words, or a cell of more than 40") {
  size_t seen = 0;
  for (const fs::path& page : Pages()) {
    for (const Part& part : PartsOf(ReadLines(page))) {
      const size_t words = Words(part.text);
      ++seen;
      if (words <= (part.cell ? kCellWordsMax : kParagraphWordsMax)) continue;
      FAIL_CHECK(fs::relative(page, PARACORD_SOURCE_DIR).string()
                 << ":" << part.line << ": a " << (part.cell ? "cell" : "paragraph") << " of "
                 << words << " words: " << part.text.substr(0, 60));
    }
  }
  CHECK(seen > 300);
}

TEST_CASE("README shows the job of the recommender as it is") {
  const fs::path root = PARACORD_SOURCE_DIR;
  const std::vector<std::string> page = ReadLines(root / "README.md");
  const auto begin = std::find(page.begin(), page.end(), "```json");
  REQUIRE(begin != page.end());
  const std::vector<std::string> shown(begin + 1, std::find(begin, page.end(), "```"));
  CHECK(shown == ReadLines(root / "examples/recommender/job.json"));
}

}  // namespace
}  // namespace paracord
