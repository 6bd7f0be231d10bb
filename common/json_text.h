// Parses and prints JSON that programs write. For JSON that people write see ParseJson
// (config/json_fields.h), which explains mistakes. A file that only calls these functions does not
// compile nlohmann's parser and printer, which would take seconds.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace paracord {

// Parses JSON. The result is_discarded() if the text is no JSON, or is nested deeper than 64.
nlohmann::json JsonOf(std::string_view text);

// Whether arrays and objects are nested deeper than `depth_max`. Callers refuse such a text: the
// parser does not recurse, but the functions that visit the parsed value do.
bool DeeperThan(std::string_view text, int depth_max);

// Prints JSON. Bytes that are not UTF-8 become U+FFFD. Negative `indent`: a single line.
std::string TextOf(const nlohmann::json& value, int indent = -1);
std::string TextOf(const nlohmann::ordered_json& value, int indent = -1);
// Like TextOf on a single line, but a number that is not finite becomes NaN, Infinity or -Infinity,
// as in Python's json module and for ParseJson. TextOf writes null for such a number.
std::string PythonTextOf(const nlohmann::json& value);

}  // namespace paracord
