// JSON that a program wrote, from text and to text. What people write is read by ParseJson
// (json_fields.h), which says what is wrong with it. Both are here, once, because every file that
// has the parser inline takes seconds longer to compile.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace paracord {

// `is_discarded()` if the text is not JSON, or nested deeper than 64.
nlohmann::json JsonOf(std::string_view text);

// Whether arrays and objects lie more than `depth_max` deep in each other. The parser does not
// recurse, but what walks its result does.
bool DeeperThan(std::string_view text, int depth_max);

// Bytes that are not UTF-8 become U+FFFD. `indent` < 0: on one line.
std::string TextOf(const nlohmann::json& value, int indent = -1);
std::string TextOf(const nlohmann::ordered_json& value, int indent = -1);
// TextOf on one line writes null for a number that is not finite. This writes NaN, Infinity or
// -Infinity, as Python's json does, for readers that use ParseJson.
std::string PythonTextOf(const nlohmann::json& value);

}  // namespace paracord
