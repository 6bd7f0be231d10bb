// Reads the options common to several formats, for the functions that open a source.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/json_fields.h"

namespace paracord {

// Reads a path or a list of paths; notes a problem if the key is missing.
std::vector<std::string> ReadPaths(JsonFields& fields, const std::string& key);
// Expands every `*`, `?` and `[` in the patterns. NOT_FOUND names a pattern without a match.
absl::StatusOr<std::vector<std::string>> ExpandPaths(Files& files,
                                                     const std::vector<std::string>& patterns);
// Reads a list of strings, empty if the key is missing; adds a problem for anything else.
std::vector<std::string> ReadStrings(JsonFields& fields, const std::string& key);
// Reads the class names in the order of their numbers; adds a problem if a class has two numbers.
std::vector<std::string> ReadClasses(JsonFields& fields, const std::string& key);
// Returns the lines, without ends, of a file or gzip file. An empty file is an error.
absl::StatusOr<std::vector<std::string>> ReadLines(Files& files, const std::string& path);
// Returns the words of a vocabulary file, a word per line. An error if empty or not UTF-8.
absl::StatusOr<std::vector<std::string>> ReadWords(Files& files, const std::string& path);

// Shortens some bytes of a file for a message: UTF-8 as a string of JSON, which a job may hold, and
// other bytes escaped as in C.
std::string Quoted(std::string_view text);

}  // namespace paracord
