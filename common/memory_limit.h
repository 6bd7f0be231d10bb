// Finds how much memory this process may use: the machine's memory, or a lower limit of its control
// groups (version 1 or 2). Memory used by other processes at the moment is not subtracted: a
// process restarted while its predecessor's memory is still being freed would get less than before.
// Reads kernel files; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace paracord {

// An amount of memory and the source of the limit.
struct MemoryThere {
  uint64_t bytes = 0;
  std::string by;  // "cgroup /a/b" or "machine"
};

// `root` is the directory that holds /proc and /sys, for tests. If neither the machine's memory nor
// a limit can be read, `bytes` is UINT64_MAX.
MemoryThere FindMemory(const std::string& root = "");

// Parses a number of bytes: "1073741824", "512MiB", "2GiB" or "1.5GiB". "2G" and "2GB" are powers
// of 1024, too. INVALID_ARGUMENT for other texts, and outside of 1 to 2^62 bytes.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

}  // namespace paracord
