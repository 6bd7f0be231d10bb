// Finds how much memory this process may use: the memory of the machine or, if lower, the limit of
// one of the process's control groups (version 1 or 2). Memory that other processes use now is not
// subtracted. Otherwise a process that is restarted while the memory of its predecessor is still
// being freed would get less than before. Any thread may call the functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// An amount of memory, and what limits it.
struct MemoryThere {
  uint64_t bytes = 0;
  std::string by;  // "cgroup /a/b" or "machine"
};

// Tests pass as `root` a directory with /proc and /sys. If nothing can be read, `bytes` is
// UINT64_MAX.
MemoryThere FindMemory(const std::string& root = "");

// Parses a number of bytes, such as "1073741824", "512MiB", "2GiB" or "1.5GiB". "2G" and "2GB" mean
// powers of 1024, too. Returns INVALID_ARGUMENT for other texts, and below 1 or from 2^62 bytes on.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

}  // namespace paracord
