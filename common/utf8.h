// UTF-8 as in RFC 3629: overlong forms, surrogates and codes beyond U+10FFFF are invalid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paracord {

inline constexpr size_t kUtf8BytesMax = 4;  // the most bytes of a character

struct Utf8Char {
  uint32_t code = 0;
  uint32_t bytes = 0;  // 0: the text does not begin with a valid character
};

// Returns the character at the beginning of `text`.
Utf8Char FirstUtf8(std::string_view text);

// Returns the size of the longest prefix of `text` made of whole, valid characters.
size_t Utf8Prefix(std::string_view text);

// Appends the character `code`. An invalid code becomes U+FFFD, the replacement character.
void AppendUtf8(uint32_t code, std::string& out);

}  // namespace paracord
