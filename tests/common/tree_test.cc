// Tests rules of the tree that no compiler checks. There are no exemptions.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/common/source_tree.h"

namespace paracord {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLinesMax = 500;
constexpr size_t kColumnsMax = 100;

std::vector<fs::path> Documents() {
  std::vector<fs::path> files = AllFiles();
  std::erase_if(files, [](const fs::path& path) { return path.extension() != ".md"; });
  return files;
}

std::string Top(const std::string& path) { return path.substr(0, path.find('/')); }

// Counts columns. A UTF-8 continuation byte has none.
size_t Columns(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

TEST_CASE("no file has more than 500 lines") {
  REQUIRE(SourceFiles().size() > 20);
  for (const SourceFile& file : SourceFiles()) {
    INFO(file.path << " has " << file.lines.size());
    CHECK(file.lines.size() <= kLinesMax);
  }
}

TEST_CASE("no line has more than 100 columns, a tab or a space at its end") {
  for (const SourceFile& file : SourceFiles()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const bool fine = Columns(line) <= kColumnsMax && line.find('\t') == std::string::npos &&
                        (line.empty() || line.back() != ' ');
      if (!fine) FAIL_CHECK(file.path << ":" << i + 1 << ": " << line);
    }
  }
}

TEST_CASE("a suppression of clang-tidy stands where it has an effect") {
  for (const SourceFile& file : SourceFiles()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const size_t begin = std::min(line.find_first_not_of(' '), line.size());
      const std::string_view rest = std::string_view(line).substr(begin);
      // In a line of its own, NOLINT is of that line, which has no code.
      const bool alone = rest.starts_with("// NOLINT") && !rest.starts_with("// NOLINTNEXTLINE");
      if (alone) FAIL_CHECK(file.path << ":" << i + 1 << ": " << line);
    }
  }
}

TEST_CASE("every test file is in a folder that the build names") {
  // Tests/main.cc, and fuzz/CMakeLists.txt names its own.
  std::set<std::string> named = {"", "fuzz"};
  std::string all;  // text that may name a single file
  bool recursive = false;
  for (const std::string& line :
       ReadLines(fs::path(PARACORD_SOURCE_DIR) / "tests/CMakeLists.txt")) {
    all += line + " ";
    const size_t open = line.find('(');
    if (line.find("paracord_") < open && open != std::string::npos) {
      named.insert(line.substr(open + 1, line.find_first_of(" )", open) - open - 1));
    }
    if (line.find("GLOB_RECURSE") != std::string::npos) recursive = true;
  }
  for (const SourceFile& file : SourceFiles()) {
    if (Top(file.path) != "tests" || !file.path.ends_with(".cc")) continue;
    INFO(file.path);
    const std::string below = file.path.substr(std::string("tests/").size());
    const std::string folder = below.find('/') == std::string::npos ? "" : Top(below);
    CHECK((named.contains(folder) || all.find(" " + below) != std::string::npos));
    const auto depth = std::count(below.begin(), below.end(), '/');
    CHECK((depth <= 1 || recursive));
  }
}

// Returns the path in `#include "folder/file"` or in a proto import, or "" for other lines.
std::string Included(const std::string& line) {
  for (const std::string word : {"#include \"", "import \""}) {
    if (!line.starts_with(word) || line.find('/') == std::string::npos) continue;
    return line.substr(word.size(), line.find('"', word.size()) - word.size());
  }
  return "";
}

using Rooms = std::map<std::string, std::set<std::string>>;

// Reads tests/rooms: each room, and the rooms that the room may include.
Rooms ReadRooms() {
  Rooms rooms;
  for (const std::string& line : ReadLines(fs::path(PARACORD_SOURCE_DIR) / "tests/rooms")) {
    if (line.empty() || line[0] == '#') continue;
    const std::string room = line.substr(0, line.find(':'));
    std::istringstream below(line.substr(room.size() + 1));
    std::set<std::string>& stands_on = rooms[room];
    for (std::string name; below >> name;) {
      INFO("tests/rooms: " << room << " stands on " << name << ", which has no line above it");
      CHECK(rooms.contains(name));
      stands_on.insert(name);
    }
  }
  return rooms;
}

// Returns the room of a file: its folder, or an inner folder that is a separate room.
std::string RoomOf(const std::string& path) {
  for (const std::string inner : {"net/grpc", "coordinator/core"}) {
    if (path.starts_with(inner + "/")) return inner;
  }
  return Top(path);
}

// Returns whether a room may include from another, directly or indirectly.
bool MayUse(const Rooms& rooms, const std::string& from, const std::string& to) {
  const std::set<std::string>& direct = rooms.at(from);
  return direct.contains(to) || std::any_of(direct.begin(), direct.end(), [&](const auto& room) {
           return MayUse(rooms, room, to);
         });
}

TEST_CASE("includes between rooms point one way") {
  const Rooms rooms = ReadRooms();
  REQUIRE(rooms.size() > 20);
  for (const SourceFile& file : SourceFiles()) {
    const bool main = file.path.ends_with("_main.cc") || file.path.ends_with("_main.h");
    const bool daemon = main && !file.path.starts_with("cli/");
    const std::string room = daemon ? "main" : RoomOf(file.path);
    if (!rooms.contains(room)) continue;
    for (const std::string& line : file.lines) {
      const std::string target = RoomOf(Included(line));
      const bool ours = rooms.contains(target) || target == "tests";
      if (ours && target != room && !MayUse(rooms, room, target))
        FAIL_CHECK(file.path << ": " << line);
    }
  }
}

// Returns the name of the type defined in a line outside of functions and types, or "".
std::string DefinedType(const std::string& line) {
  static const std::regex type(
      R"(^(?:template <.*> )?(?:class|struct|union|enum(?: class)?) ([\w:]+)[^;()]*(?:\{.*)?$)");
  std::smatch match;
  return std::regex_match(line, match, type) ? match[1].str() : "";
}

// If a program contains two types of equal name, the linker keeps only one set of their inline
// functions, for both types.
TEST_CASE("no two files define a type of one name in a named namespace") {
  CHECK(DefinedType("struct Log {") == "Log");
  CHECK(DefinedType("template <class T> class Held final : public Base<T> {") == "Held");
  CHECK(DefinedType("enum class Side { kServer, kClient };") == "Side");
  CHECK(DefinedType("class ParameterServer::Impl : public Server {") == "ParameterServer::Impl");
  CHECK(DefinedType("class Log;").empty());
  CHECK(DefinedType("struct tm Now() {").empty());
  CHECK(DefinedType("  struct Inner {").empty());
  std::map<std::string, std::string> files;  // keyed by "namespace::type"
  for (const SourceFile& file : SourceFiles()) {
    const std::string ending = fs::path(file.path).extension();
    if (ending != ".h" && ending != ".cc" && ending != ".cu") continue;
    std::vector<std::string> open;  // open namespaces; an unnamed one is private to its file
    for (const std::string& line : file.lines) {
      if (line.starts_with("namespace ") && line.ends_with("{")) open.push_back(line);
      if (line.starts_with("}  // namespace") && !open.empty()) open.pop_back();
      const std::string type = DefinedType(line);
      if (type.empty() || std::find(open.begin(), open.end(), "namespace {") != open.end()) {
        continue;
      }
      std::string name;
      for (const std::string& space : open) name += space;
      const std::string& first = files.try_emplace(name + type, file.path).first->second;
      INFO(type << " is defined in " << first << " and in " << file.path);
      CHECK(first == file.path);
    }
  }
  CHECK(files.size() > 500);
}

// Returns what a line at the left edge of an unnamed namespace defines: the name of a type or a
// constant, or the declaration of a function. Returns "" for other lines.
std::string PrivateName(const std::string& line) {
  if (line.empty() || std::isalpha(static_cast<unsigned char>(line[0])) == 0) return "";
  static const std::regex constant(
      R"((?:inline |static )*(?:constexpr|const) [^=({;]*\b(k[A-Z]\w*)(?:\[.*\])?(?:[ ={;].*)?)");
  static const std::regex function(
      R"(((?!TEST_CASE|template|using |return )[A-Za-z_][^ (]* [^;=]*\w\(.*) \{)");
  std::smatch match;
  if (std::regex_match(line, match, constant)) return match[1].str();
  const std::string type = DefinedType(line);
  if (!type.empty()) return type;
  return std::regex_match(line, match, function) ? match[1].str() : "";
}

// The build compiles neighbouring files of a target as one, and every build cuts them elsewhere.
TEST_CASE("no two files of a folder have a private type, constant or function of one name") {
  CHECK(PrivateName("constexpr size_t kLinesMax = 500;") == "kLinesMax");
  CHECK(PrivateName("const char* const kNames[] = {") == "kNames");
  CHECK(PrivateName("struct Ends {") == "Ends");
  CHECK(PrivateName("Job SmallJob() {") == "Job SmallJob()");
  CHECK(PrivateName("  return Small() {").empty());
  std::map<std::string, std::string> files;  // keyed by "folder: name"
  for (const SourceFile& file : SourceFiles()) {
    // Each file of bench/ and tests/fuzz/ is a program.
    if (!file.path.ends_with(".cc") || Top(file.path) == "bench" ||
        file.path.starts_with("tests/fuzz/")) {
      continue;
    }
    bool unnamed = false;
    for (const std::string& line : file.lines) {
      if (line == "namespace {") unnamed = true;
      if (line == "}  // namespace") unnamed = false;
      const std::string name = unnamed ? PrivateName(line) : "";
      if (name.empty()) continue;
      const std::string folder = fs::path(file.path).parent_path();
      const std::string& first = files.try_emplace(folder + ": " + name, file.path).first->second;
      INFO(name << " stands in " << first << " and in " << file.path);
      CHECK(first == file.path);
    }
  }
  CHECK(files.size() > 1000);
}

// Returns a heading's anchor in a link: "where-keras-differs" for "## Where Keras differs".
std::string AnchorOf(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(std::min(heading.size(), heading.find(' ') + 1))) {
    if (c == ' ' || c == '-') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return anchor;
}

TEST_CASE("every link of a document leads to a file or heading that exists") {
  const std::regex link(R"(\]\(([^)#\s]*)#?([^)\s]*)\))");
  size_t seen = 0;
  for (const fs::path& document : Documents()) {
    for (const std::string& line : ReadLines(document)) {
      for (std::sregex_iterator it(line.begin(), line.end(), link), end; it != end; ++it) {
        const std::string path = (*it)[1], anchor = (*it)[2];
        if (path.find("://") != std::string::npos) continue;
        INFO(document << ": " << it->str());
        const fs::path target = path.empty() ? document : document.parent_path() / path;
        CHECK(fs::exists(target));
        ++seen;
        if (anchor.empty()) continue;
        const std::vector<std::string> lines = ReadLines(target);
        CHECK(std::any_of(lines.begin(), lines.end(), [&](const std::string& heading) {
          return heading.starts_with("#") && AnchorOf(heading) == anchor;
        }));
      }
    }
  }
  CHECK(seen > 30);
}

TEST_CASE(
    "commands write to the standard streams through what keeps control characters from them") {
  const std::regex raw(R"(std::(cout|cerr)\s*<<|printf\(|std::(puts|fputs|fwrite)\()");
  for (const SourceFile& file : SourceFiles()) {
    if (Top(file.path) != "cli") continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string with_next =
          file.lines[i] + (i + 1 < file.lines.size() ? file.lines[i + 1] : "");
      if (with_next.find("TerminalText(") != std::string::npos) continue;
      if (std::regex_search(file.lines[i], raw) ||
          std::regex_search(with_next, std::regex(R"(std::(cout|cerr)\s+<<)"))) {
        FAIL_CHECK(file.path << ":" << i + 1 << ": " << file.lines[i]
                             << ": write to TerminalOut() or TerminalErr()");
      }
    }
  }
}

TEST_CASE("every header opens with a comment that says what it is") {
  for (const SourceFile& file : SourceFiles()) {
    if (fs::path(file.path).extension() != ".h") continue;
    INFO(file.path);
    CHECK((!file.lines.empty() && file.lines[0].starts_with("// ")));
    CHECK(std::find(file.lines.begin(), file.lines.end(), "#pragma once") != file.lines.end());
  }
}

}  // namespace
}  // namespace paracord
