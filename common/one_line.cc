#include "common/one_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paracord {
namespace {

// True if a control character begins at `at`. U+0080 to U+009F are C2 80 to C2 9F; terminals take
// U+009B for an escape sequence.
bool IsControl(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte == 0xc2 && at + 1 < text.size()) return static_cast<unsigned char>(text[at + 1]) < 0xa0;
  return byte < 0x20 || byte == 0x7f;
}

// Appends the control character at `at` as \x.., and returns the number of its bytes after the
// first.
size_t AppendEscaped(std::string_view text, size_t at, std::string& to) {
  const size_t more = text[at] == '\xc2' ? 1 : 0;
  absl::StrAppendFormat(&to, "\\x%02x", static_cast<unsigned char>(text[at + more]));
  return more;
}

bool IsInside(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > kNameBytesMax) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsControl(text, i)) return false;
  }
  return true;
}

std::string TerminalText(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' || text[i] == '\t' || !IsControl(text, i)) {
      shown += text[i];
    } else {
      i += AppendEscaped(text, i, shown);
    }
  }
  return shown;
}

std::string OneLine(std::string_view text, size_t bytes_max) {
  std::string_view kept = text.substr(0, bytes_max);
  while (kept.size() < text.size() && !kept.empty() && IsInside(text[kept.size()])) {
    kept.remove_suffix(1);
  }
  std::string line;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == '\n') {
      line += i + 1 < kept.size() ? "; " : "";
    } else if (IsControl(kept, i)) {
      i += AppendEscaped(kept, i, line);
    } else {
      line += kept[i];
    }
  }
  if (kept.size() < text.size()) absl::StrAppend(&line, "... (", text.size(), " bytes)");
  return line;
}

std::string ForTerminal(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    absl::StrAppend(&shown, OneLine(line, kTerminalLineMax), line.size() < text.size() ? "\n" : "");
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return shown;
}

}  // namespace paracord
