// The file that a command is told to write by --out. Blocking, in main's thread. Errors name the
// path.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Whether `path`, absolute, can be written at all as far as that is seen before the work: its
// directory is there, and it is none itself. INVALID_ARGUMENT names the flag --out and the path.
absl::Status CheckOutFile(Files& files, const std::string& path);

// Replaces `path` as a whole or not at all: `write` is given a temporary file beside it, to write
// and sync, which is renamed then. INVALID_ARGUMENT if what is there is no regular file.
absl::Status ReplaceOutFile(Files& files, const std::string& path,
                            const std::function<absl::Status(const std::string&)>& write);

}  // namespace paracord
