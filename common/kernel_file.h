// Reads the small files of /proc and /sys in which the kernel describes itself and its processes.
// Any thread.
#pragma once

#include <string>

namespace paracord {

// Returns the first 4 MiB of a kernel file; "" if unreadable. Files (common/files.h) cannot read
// kernel files, because their reported size is 0.
std::string ReadKernelFile(const std::string& path);

}  // namespace paracord
