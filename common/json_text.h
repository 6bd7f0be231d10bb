// JSON that a program wrote, from text and to text. What people write is read by ParseJson
// (json_fields.h), which says what is wrong with it. Both are here, once, because every file that
// has the parser inline takes seconds longer to compile.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace paracord {

// `is_discarded()` if the text is not JSON.
nlohmann::json JsonOf(std::string_view text);

// Bytes that are not UTF-8 become U+FFFD. `indent` < 0: on one line.
std::string TextOf(const nlohmann::json& value, int indent = -1);
std::string TextOf(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace paracord
