// Sets how a daemon writes its log. Called by main, before it starts threads.
#pragma once

#include <string>

#include "common/log.h"

namespace paracord {

// Returns "" if the format exists (text, json, auto), otherwise the problem.
std::string CheckLogFormat(const std::string& format);

// Sets up the process's logger, which writes to stderr and keeps lines for last_events.h. `format`
// "auto" is text on a terminal and JSON elsewhere. Repetitions of an event beyond a limit are
// counted and left out (log_lines.h), except at level debug and in the output of a job's program.
void SetUpLogging(const std::string& level, const std::string& format);

}  // namespace paracord
