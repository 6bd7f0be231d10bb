// Parses and prints JSON written by programs. For JSON written by people see ParseJson
// (config/json_fields.h), which explains mistakes. Files that parse or print JSON by these
// functions do not compile nlohmann's parser and printer, which takes seconds.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace paracord {

// Parses JSON; the result is_discarded() if the text is no JSON, or nested deeper than 64.
nlohmann::json JsonOf(std::string_view text);

// True if arrays and objects are nested deeper than `depth_max`. Callers refuse such a text: the
// parser does not recurse, but code that goes through the parsed value does.
bool DeeperThan(std::string_view text, int depth_max);

// Prints JSON; bytes that are not UTF-8 become U+FFFD. A negative `indent` prints a single line.
std::string TextOf(const nlohmann::json& value, int indent = -1);
std::string TextOf(const nlohmann::ordered_json& value, int indent = -1);
// Like TextOf on a single line, but a number that is not finite becomes NaN, Infinity or -Infinity,
// as in Python's json, for readers that use ParseJson; TextOf writes null.
std::string PythonTextOf(const nlohmann::json& value);

}  // namespace paracord
