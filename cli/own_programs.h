// Returns how `paracord COMMAND` runs a job's model that is a program: the program is allowed,
// computes on the CPU, and its output goes to standard error.
#pragma once

#include <algorithm>
#include <iostream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/one_line.h"
#include "program/process_program.h"

namespace paracord {

inline ProgramUse OwnPrograms(const std::string& command) {
  ProgramUse use;
  use.allowed = true;
  use.device = "cpu";
  use.task = command;
  use.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  use.log = [command](const std::string& line) {  // called in another thread than main's
    std::cerr << TerminalText(absl::StrCat("paracord ", command, ": program: ", line, "\n"));
  };
  return use;
}

}  // namespace paracord
