// Makes text from peers and files safe to keep, log and show: a single line, no control characters
// for a terminal, bounded length. Text is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// The limit for names given by people and kept verbatim: of variables, metrics and the like.
inline constexpr size_t kNameBytesMax = 1024;
// True for 1 to kNameBytesMax bytes without control characters.
bool IsName(std::string_view text);

// Returns `text` on a single line: "; " replaces line ends (a last one is dropped), and \x.. other
// control characters. Text longer than bytes_max is cut between characters, and its length is
// appended.
std::string OneLine(std::string_view text, size_t bytes_max);

// Returns all of `text`; \x.. replaces control characters except line ends and tabs.
std::string TerminalText(std::string_view text);

// Returns a message for a terminal. Keeps line ends, and treats the text of each line like OneLine
// with kTerminalLineMax.
inline constexpr size_t kTerminalLineMax = 4096;
std::string ForTerminal(std::string_view text);

}  // namespace paracord
