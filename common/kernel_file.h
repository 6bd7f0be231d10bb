// Reads the small files in /proc and /sys by which the kernel describes itself and its processes.
#pragma once

#include <string>

namespace paracord {

// Returns the contents of a kernel file, up to about 4 MiB; "" if the file cannot be read.
// Files::ReadWhole cannot read kernel files, because the kernel reports a size of 0 for them.
std::string ReadKernelFile(const std::string& path);

}  // namespace paracord
