// Starts a program as a child process, in a session of its own. The kernel sends the child a signal
// when the spawning thread ends (PR_SET_PDEATHSIG). So spawn from a thread that lives as long as
// the process, such as main's.
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
  // The child's stdout and stderr; negative: those of this process. Spawn does not close `output`
  // and `input` in this process.
  int output = -1;
  int input = -1;              // the child's stdin; negative: /dev/null
  int death_signal = SIGKILL;  // sent to the child when the spawning thread ends
  std::string directory;       // the child's working directory; empty: this process's
  // Descriptors of this process that the child gets as 3, 4, ... (at most 8), besides its stdin,
  // stdout and stderr. If the list is not empty, the child gets no further descriptors (on kernels
  // without close_range, none that are marked close-on-exec), and default signal handlers.
  std::vector<int> descriptors;
};

// Returns the path of a program. A `name` without a slash is searched in the directories of PATH,
// whose empty entries are skipped. Returns `name` if it has a slash or if nothing was found.
std::string FindProgram(const std::string& name);

// Returns the child's process id as soon as the child has begun to run the program (its execve has
// succeeded). Returns NOT_FOUND, often with a remedy, if the program is missing or cannot be
// executed. Returns another error if the system has no room for a process. If the child cannot
// enter `directory`, returns the error of the system, which may be NOT_FOUND as well.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

}  // namespace paracord
