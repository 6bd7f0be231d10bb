// What the options of several formats have in common. Used on the stack of a function that opens.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/json_fields.h"

namespace paracord {

// A path or a list of paths; a problem where the key is missing.
std::vector<std::string> ReadPaths(JsonFields& fields, const std::string& key);
// The same, with a `*`, `?` or `[` expanded; NOT_FOUND naming a pattern that nothing matches.
absl::StatusOr<std::vector<std::string>> ExpandPaths(Files& files,
                                                     const std::vector<std::string>& patterns);
// Strings; a problem where it is something else, and nothing where the key is missing.
std::vector<std::string> ReadStrings(JsonFields& fields, const std::string& key);
// The same, of classes in the order of their numbers; a problem where one has two.
std::vector<std::string> ReadClasses(JsonFields& fields, const std::string& key);
// The lines of a file that may be gzip, without their ends; not empty.
absl::StatusOr<std::vector<std::string>> ReadLines(Files& files, const std::string& path);
// The same of a vocabulary, whose words are UTF-8.
absl::StatusOr<std::vector<std::string>> ReadWords(Files& files, const std::string& path);

// For messages: a piece of a file, shortened, and printable whatever it holds.
std::string Quoted(std::string_view text);

}  // namespace paracord
