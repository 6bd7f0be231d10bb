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
};

// NOT_FOUND if there is no such program. A child that cannot execute it exits with 2.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

}  // namespace paracord
