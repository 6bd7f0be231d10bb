// Keeps the newest lines of this process's log, and dumps the lines and a stack trace to standard
// error on a fatal signal, even where nobody keeps the log. There is one store of lines per
// process. RememberEvent may be called from any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace paracord {

inline constexpr size_t kLastEventsMax = 1000;
inline constexpr size_t kLastEventBytesMax = 512;  // longer lines are cut

void RememberEvent(std::string_view line);

// Writes the remembered lines to `fd`, the oldest first. Allocates nothing and takes no lock, and
// may therefore run in a signal handler; a line that is being remembered meanwhile may be torn.
void DumpLastEvents(int fd);

// From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT dump the lines and the stack, and then
// end the process as usual. Does nothing under the address and thread sanitizers, which report
// fatal signals themselves.
void DumpLastEventsOnFatalSignals();

}  // namespace paracord
