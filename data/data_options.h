// Reads the options that several formats share. The functions that open a source call it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/json_fields.h"

namespace paracord {

// Reads a path or a list of paths; notes a problem if the key is missing.
std::vector<std::string> ReadPaths(JsonFields& fields, const std::string& key);
// Expands every `*`, `?` and `[` in the patterns. Returns NOT_FOUND naming a pattern that matches
// nothing.
absl::StatusOr<std::vector<std::string>> ExpandPaths(Files& files,
                                                     const std::vector<std::string>& patterns);
// Reads a list of strings, which is empty if the key is missing; notes a problem if it is something
// else.
std::vector<std::string> ReadStrings(JsonFields& fields, const std::string& key);
// Reads a list of strings that name classes in the order of their numbers; notes a problem if a
// class has two numbers.
std::vector<std::string> ReadClasses(JsonFields& fields, const std::string& key);
// Returns the lines of a file, which may be gzip, without their ends. An error if there are none.
absl::StatusOr<std::vector<std::string>> ReadLines(Files& files, const std::string& path);
// Returns the words of a vocabulary file, one a line. An error if there are none, or if one is no
// UTF-8.
absl::StatusOr<std::vector<std::string>> ReadWords(Files& files, const std::string& path);

// Shortens some bytes of a file for a message, and makes them printable.
std::string Quoted(std::string_view text);

}  // namespace paracord
