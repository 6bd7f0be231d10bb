// Keeps the newest lines of this process's log in memory. On a fatal signal, writes these lines and
// a stack trace to standard error, even if nobody saves the log. Any thread may call RememberEvent.
#pragma once

#include <cstddef>
#include <string_view>

namespace paracord {

inline constexpr size_t kLastEventsMax = 1000;
inline constexpr size_t kLastEventBytesMax = 512;  // longer lines are cut off

void RememberEvent(std::string_view line);

// Writes the remembered lines to `fd`, the oldest first. Allocates nothing and takes no lock, and
// may therefore run in a signal handler. A line that is remembered meanwhile may be torn.
void DumpLastEvents(int fd);

// From now on each of SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT dumps the stack and the
// remembered lines, and then ends the process as the signal does by default. Does nothing in builds
// with the address or the thread sanitizer, which report fatal signals themselves.
void DumpLastEventsOnFatalSignals();

}  // namespace paracord
