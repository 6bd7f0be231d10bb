// The newest lines of this process's log, kept for the dump, with a stack trace, to standard error
// on a fatal signal, even where nobody keeps the log. One instance per process; Remember may be
// called from any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace paracord {

inline constexpr size_t kLastEventsMax = 1000;
inline constexpr size_t kLastEventBytesMax = 512;  // longer lines are cut

void RememberEvent(std::string_view line);

// Writes the lines, the oldest first. Allocates nothing and takes no lock, and may therefore run in
// a signal handler; a line being written meanwhile may be torn.
void DumpLastEvents(int fd);

// From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT dump the lines and the stack, and then
// end the process as usual. Under sanitizers, which print reports of their own, does nothing.
void DumpLastEventsOnFatalSignals();

}  // namespace paracord
