// Starts a program as a child in a session of its own. A child gets a signal when the spawning
// thread ends (PR_SET_PDEATHSIG): spawn from a thread that lives as long as the process, such as
// main's.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

struct SpawnOptions {
  std::vector<std::string> command;      // the path of the program, and its arguments
  std::vector<std::string> environment;  // "NAME=value" overrides this process's variable NAME
  int output = -1;                       // becomes the child's stdout and stderr; stays open here
  int input = -1;                        // becomes the child's stdin; negative: /dev/null
  int death_signal = SIGKILL;            // the child gets it when the spawning thread ends
  std::string directory;                 // the child's working directory; empty: ours
  // These (at most 8) become the child's descriptors 3, 4, ...; if there are any, the child gets no
  // other descriptors, and default signal handlers.
  std::vector<int> descriptors;
};

// Returns the path of a program, searched in PATH as by a shell if the name has no slash; the name
// itself if nothing was found.
std::string FindProgram(const std::string& name);

// Returns the child's process id once the child has executed the program. NOT_FOUND, often with a
// remedy, if the program is missing or cannot be executed; other errors if `directory` cannot be
// entered, or if the system has no room for another process.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

}  // namespace paracord
