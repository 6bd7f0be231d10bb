// In all C++ and CUDA code, functions have at most 60 lines and types at most 30 data members. The
// test parses a file's text only as far as clang-format's output requires.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/common/source_tree.h"

namespace paracord {
namespace {

constexpr size_t kFunctionLinesMax = 60;
constexpr size_t kMembersMax = 30;

// A file's text with comments, preprocessor lines, strings and characters blanked. Each remaining
// brace is code and keeps its line.
class Code {
 public:
  explicit Code(const std::vector<std::string>& lines) {
    bool continued = false;  // inside a preprocessor line with continuation
    for (const std::string& line : lines) {
      const bool directive = raw_end_.empty() && !comment_ && (continued || line.starts_with("#"));
      continued = directive && line.ends_with("\\");
      if (!directive) Take(line);
      text_ += '\n';
    }
  }
  const std::string& text() const { return text_; }

 private:
  void Take(std::string_view line) {
    for (size_t at = 0; at < line.size();) {
      if (comment_ || !raw_end_.empty()) {
        const std::string& end = comment_ ? kCommentEnd : raw_end_;
        const size_t close = line.find(end, at);
        if (close == line.npos) return;
        at = close + end.size();
        comment_ = false;
        raw_end_.clear();
      } else if (line.substr(at).starts_with("//")) {
        return;
      } else if (line.substr(at).starts_with("/*")) {
        comment_ = true;
      } else if (line.substr(at).starts_with("R\"")) {
        const size_t open = line.find('(', at);
        raw_end_ = ")" + std::string(line.substr(at + 2, open - at - 2)) + "\"";
        at = open + 1;
      } else if (line[at] == '"' || (line[at] == '\'' && !InNumber(line, at))) {
        const char quote = line[at];
        for (++at; at < line.size() && line[at] != quote; ++at) at += line[at] == '\\' ? 1 : 0;
        ++at;
      } else {
        text_ += line[at++];
      }
    }
  }
  static bool InNumber(std::string_view line, size_t at) {
    return at > 0 && std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0;
  }

  inline static const std::string kCommentEnd = "*/";
  std::string text_;
  bool comment_ = false;
  std::string raw_end_;  // end of the current raw string, or ""
};

struct Finding {
  std::string name;  // start of the declaration
  size_t line = 0;
  size_t count = 0;  // lines of a function body, or data members of a type
};

struct Outline {
  std::vector<Finding> functions;
  std::vector<Finding> types;
};

std::string Trimmed(const std::string& text) {
  static const std::regex kSpaces("\\s+");
  static const std::regex kLabels("^ ?((public|private|protected): ?)+");
  const std::string words = std::regex_replace(text, kSpaces, " ");
  const std::string bare = std::regex_replace(words, kLabels, "");
  const size_t begin = bare.starts_with(" ") ? 1 : 0;
  return bare.substr(begin, bare.size() - begin - (bare.size() > begin && bare.ends_with(" ")));
}

// Removes template arguments, and annotations of members with their arguments.
std::string WithoutArguments(const std::string& text) {
  static const std::regex kAnnotation("(ABSL_\\w+|alignas) ?\\([^()]*(\\([^()]*\\))?[^()]*\\)");
  std::string out;
  int depth = 0;
  for (const char c : std::regex_replace(text, kAnnotation, "")) {
    if (c == '<') ++depth;
    if (depth == 0) out += c;
    if (c == '>' && depth > 0) --depth;
  }
  return out;
}

// Returns the number of data members that a statement in a class declares.
size_t MembersOf(const std::string& statement) {
  static const std::regex kOther(
      "^(using|friend|static|static_assert|typedef|template|enum|class|struct|union|explicit|"
      "virtual|constexpr)\\b.*|.*\\boperator\\b.*");
  const std::string text = WithoutArguments(Trimmed(statement));
  if (text.empty() || std::regex_match(text, kOther)) return 0;
  const std::string head = text.substr(0, text.find_first_of("={"));
  if (head.find('(') != head.npos) return 0;
  return 1 + static_cast<size_t>(std::count(text.begin(), text.end(), ','));
}

enum class ScopeKind { kNamespace, kType, kFunction, kOther };

ScopeKind KindOf(const std::string& head, ScopeKind around) {
  static const std::regex kNamespace("^(inline )?namespace\\b.*|^extern\\b ?$");
  static const std::regex kType("^(template .*)?\\b(class|struct|union) [^=]*");
  if (around == ScopeKind::kFunction || around == ScopeKind::kOther) return ScopeKind::kOther;
  if (std::regex_match(head, kNamespace)) return ScopeKind::kNamespace;
  const std::string bare = WithoutArguments(head);
  if (std::regex_match(bare, kType) && bare.find('(') == bare.npos) return ScopeKind::kType;
  const size_t call = bare.find('(');
  const bool value = call == bare.npos || bare.substr(0, call).find('=') != bare.npos;
  return value ? ScopeKind::kOther : ScopeKind::kFunction;
}

Outline OutlineOf(const SourceFile& file) {
  struct Scope {
    ScopeKind kind = ScopeKind::kNamespace;
    Finding finding;
    std::string before;  // the statement around a braced value
  };
  Outline outline;
  std::vector<Scope> scopes(1);
  std::string statement;
  size_t line = 1;
  const Code code(file.lines);
  for (const char c : code.text()) {
    if (c == '\n') ++line;
    if (c == '{') {
      const std::string head = Trimmed(statement);
      const ScopeKind kind = KindOf(head, scopes.back().kind);
      scopes.push_back({kind, {head.substr(0, 60), line, 0}, statement});
      statement.clear();
    } else if (c == '}' && scopes.size() > 1) {
      const Scope scope = scopes.back();
      scopes.pop_back();
      statement = scope.kind == ScopeKind::kOther ? scope.before + "{}" : "";
      const size_t lines = line > scope.finding.line ? line - scope.finding.line - 1 : 0;
      if (scope.kind == ScopeKind::kFunction) {
        outline.functions.push_back({scope.finding.name, scope.finding.line, lines});
      }
      if (scope.kind == ScopeKind::kType) outline.types.push_back(scope.finding);
    } else if (c == ';') {
      if (scopes.back().kind == ScopeKind::kType) {
        scopes.back().finding.count += MembersOf(statement);
      }
      statement.clear();
    } else {
      statement += c;
    }
  }
  return outline;
}

TEST_CASE("an outline has the functions and types of a file, with their sizes") {
  const Outline outline = OutlineOf(
      {"a.cc",
       {"#define BRACE {", "namespace a {", "struct Point {", "  int x = 0, y{1};  // and no {",
        "  std::map<int, int> all;", "  int Sum(int a) const;",
        "  Mutex mu_ ABSL_GUARDED_BY(other(1));", "  std::function<void(int)> done;", "};",
        "int Point::Sum(int a) const {", "  if (a > 0) {", "    return '{' + a;", "  }",
        "  return R\"(}", ")\"[0];", "}", "const int kAll[] = {1, 2};", "}  // namespace a"}});
  REQUIRE(outline.types.size() == 1);
  CHECK(outline.types[0].name == "struct Point");
  CHECK(outline.types[0].line == 3);
  CHECK(outline.types[0].count == 5);
  REQUIRE(outline.functions.size() == 1);
  CHECK(outline.functions[0].name == "int Point::Sum(int a) const");
  CHECK(outline.functions[0].count == 5);
}

TEST_CASE("no function has more than 60 lines, and no type has too many data members") {
  size_t functions = 0, types = 0;
  for (const SourceFile& file : SourceFiles()) {
    static const std::vector<std::string> kKinds = {".h", ".cc", ".cu", ".cuh"};
    const std::string kind = std::filesystem::path(file.path).extension().string();
    if (std::ranges::find(kKinds, kind) == kKinds.end()) continue;
    const Outline outline = OutlineOf(file);
    functions += outline.functions.size();
    types += outline.types.size();
    for (const Finding& function : outline.functions) {
      INFO(file.path << ":" << function.line << ": " << function.name);
      CHECK(function.count <= kFunctionLinesMax);
    }
    for (const Finding& type : outline.types) {
      INFO(file.path << ":" << type.line << ": " << type.name);
      CHECK(type.count <= kMembersMax);
    }
  }
  CHECK(functions > 5000);
  CHECK(types > 800);
}

}  // namespace
}  // namespace paracord
