// The newest lines of this process's log, kept so that a fatal signal can show them, with a stack
// trace, on standard error, even where nobody keeps the log. One for a process; Remember may be
// called from any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace paracord {

inline constexpr size_t kLastEventsMax = 1000;
inline constexpr size_t kLastEventBytesMax = 512;  // longer lines are cut

void RememberEvent(std::string_view line);

// Writes the lines, the oldest first. It needs no memory and takes no lock, so that it may run in a
// signal handler; a line that is being written meanwhile may be torn.
void DumpLastEvents(int fd);

// From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT dump the lines and the stack before they
// end the process as usual. Sanitizers, which have reports of their own, keep these signals.
void DumpLastEventsOnFatalSignals();

}  // namespace paracord
