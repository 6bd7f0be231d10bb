// Parses and prints JSON written by programs. JSON written by people is parsed by ParseJson
// (json_fields.h), which explains mistakes. Both are functions in one place, because including the
// parser costs seconds of compile time.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace paracord {

// Parses JSON; the result is_discarded() if the text is no JSON, or nested deeper than 64.
nlohmann::json JsonOf(std::string_view text);

// True if arrays and objects are nested deeper than `depth_max`. The parser does not recurse, but
// code that walks its result does.
bool DeeperThan(std::string_view text, int depth_max);

// Prints JSON; bytes that are not UTF-8 become U+FFFD. A negative `indent` prints one line.
std::string TextOf(const nlohmann::json& value, int indent = -1);
std::string TextOf(const nlohmann::ordered_json& value, int indent = -1);
// TextOf on one line writes null for a number that is not finite. This writes NaN, Infinity or
// -Infinity, as Python's json does, for readers that use ParseJson.
std::string PythonTextOf(const nlohmann::json& value);

}  // namespace paracord
