// Sets how a daemon writes its log. Main calls the functions before it starts threads.
#pragma once

#include <string>

#include "common/log.h"

namespace paracord {

// Returns "" if the format exists (text, json, auto), otherwise an error message.
std::string CheckLogFormat(const std::string& format);

// Sets up the process's logger, which writes to stderr and remembers its lines (last_events.h).
// With the `format` "auto" the lines are text if stderr is a terminal, and JSON otherwise. Of an
// event that occurs too often, the lines beyond a limit are counted and left out (log_lines.h),
// except at the level debug and in the output of a job's program.
void SetUpLogging(const std::string& level, const std::string& format);

}  // namespace paracord
