// Reads the small files in which the kernel tells about itself and its processes (/proc, /sys). Any
// thread.
#pragma once

#include <string>

namespace paracord {

// Returns the text of such a file, of which at most 4 MiB are read; "" if it cannot be read. Files
// (common/files.h) is of no use for them, because they say that they have no bytes.
std::string ReadKernelFile(const std::string& path);

}  // namespace paracord
