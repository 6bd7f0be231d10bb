// Finds how much memory this process may use: what its control groups leave, of version 1 or 2, or
// else what the machine has available. Reads files of the kernel; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// What is available now, and who says so.
struct AvailableMemory {
  uint64_t bytes = 0;
  std::string by;  // "cgroup /a/b" or "machine"
};

// `root` is the directory that /proc and /sys are in. If nothing can be read, there is no limit:
// bytes are UINT64_MAX. Memory that the kernel would give back at once (caches of files) counts as
// available.
AvailableMemory FindAvailableMemory(const std::string& root = "");

// Parses a number of bytes: "1073741824", "512MiB", "2GiB" or "1.5GiB"; also "2G" and "2GB", which
// are powers of 1024 too.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

}  // namespace paracord
