// Starts a program as a child in a session of its own. A child dies with the thread that spawned it
// (PR_SET_PDEATHSIG), so that should be a thread that lives as long as the process: main's.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paracord {

struct SpawnOptions {
  std::vector<std::string> command;      // the path of the program, and its arguments
  std::vector<std::string> environment;  // "NAME=value", each instead of ours of that name
  int output = -1;                       // becomes its stdout and stderr; remains the caller's
  int input = -1;                        // becomes its stdin, if there is one; remains the caller's
  int death_signal = SIGKILL;            // what it gets when we die
  std::string directory;                 // where it starts; empty: where we are
  // These become its descriptors 3, 4, ... and it gets no others, and every signal's default.
  std::vector<int> descriptors;
};

// The path of a program as a shell finds it, by PATH where the name has no slash; the name itself
// if there is none.
std::string FindProgram(const std::string& name);

// NOT_FOUND if there is no such program, or it cannot be executed, which the error says how to
// mend. Waits until the child executes it.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

}  // namespace paracord
