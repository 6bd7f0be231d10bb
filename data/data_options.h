// Reads options that several formats have, for the functions that open a source.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/json_fields.h"

namespace paracord {

// Reads a path or a list of paths. Adds a problem if the key is missing or has another value.
std::vector<std::string> ReadPaths(JsonFields& fields, const std::string& key);
// Returns the paths that match the patterns, whose `*`, `?` and `[...]` are expanded, and announces
// the files (Files::Expect). NOT_FOUND names a pattern with `*`, `?` or `[` without a match.
absl::StatusOr<std::vector<std::string>> ExpandPaths(Files& files,
                                                     const std::vector<std::string>& patterns);
// Reads a list of strings; none if the key is missing. An empty list or another value is a problem.
std::vector<std::string> ReadStrings(JsonFields& fields, const std::string& key);
// Reads class names in the order of their numbers. Adds a problem if a name occurs twice.
std::vector<std::string> ReadClasses(JsonFields& fields, const std::string& key);
// Returns the lines, without their ends, of a plain or gzip file of up to 256 MiB. Returns
// INVALID_ARGUMENT if the file is empty.
absl::StatusOr<std::vector<std::string>> ReadLines(Files& files, const std::string& path);
// Like ReadLines, for a vocabulary. Returns INVALID_ARGUMENT if a line is not UTF-8.
absl::StatusOr<std::vector<std::string>> ReadWords(Files& files, const std::string& path);

// Returns the first 40 bytes of a text from a file, for a message: UTF-8 as a JSON string, other
// bytes escaped as in C. "..." stands for the rest of a longer text.
std::string Quoted(std::string_view text);

}  // namespace paracord
