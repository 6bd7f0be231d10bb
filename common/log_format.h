// How the log of a daemon is written. Called by main, before it starts threads.
#pragma once

#include <string>

#include "common/log.h"

namespace paracord {

// Returns "" or what is wrong with a format; text, json and auto exist.
std::string CheckLogFormat(const std::string& format);

// Sets up the process's logger as SetUpLogging(level) does: it writes to stderr and remembers its
// lines (last_events.h). `format` "auto" is text on a terminal and JSON elsewhere. What one event
// repeats beyond a limit is counted and left out (log_lines.h), except at level debug and of what a
// job's program prints.
void SetUpLogging(const std::string& level, const std::string& format);

}  // namespace paracord
