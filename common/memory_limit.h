// Finds how much memory this process may use: the limit of its control groups, of version 1 or 2,
// or else all that the machine has. What others use just now does not count: a process that is
// started again, while its last life's memory is still being freed, would be refused what it had.
// Reads files of the kernel; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// How much there is, and who says so.
struct MemoryThere {
  uint64_t bytes = 0;
  std::string by;  // "cgroup /a/b" or "machine"
};

// `root` is the directory that /proc and /sys are in. If nothing can be read, there is no limit:
// bytes are UINT64_MAX.
MemoryThere FindMemory(const std::string& root = "");

// Parses a number of bytes: "1073741824", "512MiB", "2GiB" or "1.5GiB"; also "2G" and "2GB", which
// are powers of 1024 too.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

}  // namespace paracord
