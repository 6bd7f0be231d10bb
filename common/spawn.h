// Starts a program as a child in a session of its own. A child dies with the thread that spawned it
// (PR_SET_PDEATHSIG): spawn from a thread that lives as long as the process, such as main's.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

struct SpawnOptions {
  std::vector<std::string> command;      // the path of the program, and its arguments
  std::vector<std::string> environment;  // "NAME=value"; overrides our variable NAME
  int output = -1;                       // becomes its stdout and stderr; remains the caller's
  int input = -1;              // becomes the child's stdin unless negative; the caller keeps it
  int death_signal = SIGKILL;  // sent to the child when we die
  std::string directory;       // the child's working directory; empty: ours
  // Become the child's descriptors 3, 4, ...; the child gets no others, and default signal
  // handlers.
  std::vector<int> descriptors;
};

// The path of a program, searched in PATH as by a shell if the name has no slash; the name itself
// if nothing was found.
std::string FindProgram(const std::string& name);

// NOT_FOUND if the program is missing or not executable; the error says how to mend this. Waits
// until the child has executed the program.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

}  // namespace paracord
