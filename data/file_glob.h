// Expands paths that have *, ? or [...] in any part. If a file or directory has exactly the name of
// a part, that part matches it alone. Without state; uses only Files for reading.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// Returns the matching paths, sorted. A pattern without *, ? and [ is returned unchanged, whether
// or not the file exists. NOT_FOUND names a pattern without a match. An error of Files::List, such
// as for an unreadable directory, is returned unchanged.
absl::StatusOr<std::vector<std::string>> ExpandGlob(Files& files, const std::string& pattern);

// Whether `listed`, a status of Files::List, says that the path does not exist or is a file.
bool IsNoDirectory(const absl::Status& listed);

}  // namespace paracord
