// Reads the options common to several formats, for the functions that open a source.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/json_fields.h"

namespace paracord {

// Reads a path or a list of paths; adds a problem if the key is missing or has another value.
std::vector<std::string> ReadPaths(JsonFields& fields, const std::string& key);
// Expands every `*`, `?` and `[` in the patterns, and announces the files (Files::Expect).
// NOT_FOUND names a pattern without a match.
absl::StatusOr<std::vector<std::string>> ExpandPaths(Files& files,
                                                     const std::vector<std::string>& patterns);
// Reads a list of strings; none if the key is missing. Adds a problem for an empty list or another
// value.
std::vector<std::string> ReadStrings(JsonFields& fields, const std::string& key);
// Reads the class names in the order of their numbers; adds a problem if a name occurs twice.
std::vector<std::string> ReadClasses(JsonFields& fields, const std::string& key);
// Returns the lines, without their ends, of a plain or gzip file of up to 256 MiB. INVALID_ARGUMENT
// if the file is empty.
absl::StatusOr<std::vector<std::string>> ReadLines(Files& files, const std::string& path);
// Like ReadLines, for a vocabulary with a word in each line. INVALID_ARGUMENT if one is not UTF-8.
absl::StatusOr<std::vector<std::string>> ReadWords(Files& files, const std::string& path);

// Returns the first 40 bytes of a text from a file, for a message: UTF-8 as a string of JSON, which
// a job may hold, and other bytes escaped as in C. "..." stands for the rest.
std::string Quoted(std::string_view text);

}  // namespace paracord
