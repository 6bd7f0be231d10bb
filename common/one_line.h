// Makes text from peers and files safe to keep, log and show: without the control characters to
// which a terminal would react and, for OneLine, of bounded length. All texts are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// The most bytes of a name that people give, such as that of a variable or a metric.
inline constexpr size_t kNameBytesMax = 1024;
// Whether the text has 1 to kNameBytesMax bytes, and no control characters.
bool IsName(std::string_view text);

// Returns `text` on a single line. "; " replaces each end of line, except that one at the end of
// `text` is dropped, and \x.. replaces each other control character. A text of more than bytes_max
// bytes is cut off between two characters, and the number of its bytes is appended.
std::string OneLine(std::string_view text, size_t bytes_max);

// Returns all of `text`, with \x.. for control characters except ends of lines and tabs.
std::string TerminalText(std::string_view text);

inline constexpr size_t kTerminalLineMax = 4096;
// Returns `text` for a terminal. Each line becomes OneLine(line, kTerminalLineMax).
std::string ForTerminal(std::string_view text);

}  // namespace paracord
