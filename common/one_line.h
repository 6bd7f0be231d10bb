// Makes text from peers and files safe to keep, log and show: one line, no control characters for a
// terminal, bounded length. Pure functions over UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// The limit for names of variables, metrics and other things that people give and that are kept as
// given.
inline constexpr size_t kNameBytesMax = 1024;
// True for 1 to kNameBytesMax bytes without control characters.
bool IsName(std::string_view text);

// Returns `text` on one line: "; " replaces line ends, \x.. other control characters. Text longer
// than bytes_max is cut between characters, and its length is appended.
std::string OneLine(std::string_view text, size_t bytes_max);

// Returns all of `text` with \x.. in place of its control characters but line ends and tabs.
std::string TerminalText(std::string_view text);

// Returns a message for a terminal: its lines stay lines, and each is as OneLine makes it of at
// most kTerminalLineMax bytes.
inline constexpr size_t kTerminalLineMax = 4096;
std::string ForTerminal(std::string_view text);

}  // namespace paracord
