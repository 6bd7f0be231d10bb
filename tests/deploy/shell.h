// Runs a shell line and returns its output.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace paracord {

struct ShellResult {
  int code = -1;
  std::string said;  // stdout and stderr
};

inline ShellResult RunShell(const std::string& line) {
  ShellResult result;
  FILE* const pipe = popen(("exec 2>&1\n" + line).c_str(), "r");
  if (pipe == nullptr) return result;
  char bytes[4096];
  for (size_t count = 0; (count = fread(bytes, 1, sizeof bytes, pipe)) > 0;) {
    result.said.append(bytes, count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

}  // namespace paracord
