// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paracord {

struct Utf8Char {
  uint32_t code = 0;
  uint32_t bytes = 0;  // 0: there is no character at the start of the text
};

// The character at the start of `text`.
Utf8Char FirstUtf8(std::string_view text);

// How many bytes at the start of `text` are whole characters.
size_t Utf8Prefix(std::string_view text);

}  // namespace paracord
