// Text that a peer or a file says, before it is kept, logged or shown: a line of its own that no
// terminal obeys, and not of any length. Pure functions over UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paracord {

// Of names that people give: of variables, metrics, and what else is kept as it was said.
inline constexpr size_t kNameBytesMax = 1024;
// At most kNameBytesMax bytes, at least one, and no control character.
bool IsName(std::string_view text);

// `text` on one line: "; " for the ends of lines, \x.. for other control characters. What is longer
// than bytes_max is cut at a character, and its length said.
std::string OneLine(std::string_view text, size_t bytes_max);

}  // namespace paracord
