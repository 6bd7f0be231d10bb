// Expands paths with *, ? and [...] in any component. A file with special characters in its name is
// found by the exact name. Stateless; reads through the file seam.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// Returns the sorted matching paths. A pattern without special characters is returned unchanged,
// whether or not the file exists. NOT_FOUND names a pattern without a match; an unreadable
// directory is an error of its own.
absl::StatusOr<std::vector<std::string>> ExpandGlob(Files& files, const std::string& pattern);

// Whether Files::List failed because the path is a file, or does not exist.
bool IsNoDirectory(const absl::Status& listed);

}  // namespace paracord
