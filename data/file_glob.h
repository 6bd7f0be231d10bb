// Paths with *, ? and [...] in any component; what is there by that very name is
// itself. Over the file seam, no state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"

namespace paracord {

// The paths that match, sorted; a pattern without special characters is itself. NOT_FOUND naming
// the pattern if nothing matches; an error of its own of a directory that cannot be looked into.
absl::StatusOr<std::vector<std::string>> ExpandGlob(Files& files, const std::string& pattern);

// Of what Files::List answered: there is nothing of that name, or a file.
bool IsNoDirectory(const absl::Status& listed);

}  // namespace paracord
