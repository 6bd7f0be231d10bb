#include "common/last_events.h"

#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace paracord {
namespace {

struct KeptLine {
  std::atomic<uint32_t> bytes{0};
  char text[kLastEventBytesMax];
};

KeptLine kept_lines[kLastEventsMax];
std::atomic<uint64_t> remembered{0};

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put <= 0) return;
    text.remove_prefix(static_cast<size_t>(put));
  }
}

// A second signal while the first is being told of ends the process at once.
[[maybe_unused]] void OnFatalSignal(int signal) {
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(signal, &usual, nullptr);
  WriteAll(STDERR_FILENO, "\n==== fatal signal ");
  const char* const name = ::sigabbrev_np(signal);
  WriteAll(STDERR_FILENO, name == nullptr ? "?" : name);
  WriteAll(STDERR_FILENO, "; the stack (addr2line -e PROGRAM explains it):\n");
  void* frames[64];
  const int count = ::backtrace(frames, 64);
  ::backtrace_symbols_fd(frames, count, STDERR_FILENO);
  WriteAll(STDERR_FILENO, "==== the last events:\n");
  DumpLastEvents(STDERR_FILENO);
  WriteAll(STDERR_FILENO, "==== end\n");
  ::raise(signal);
}

}  // namespace

void RememberEvent(std::string_view line) {
  while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  KeptLine& to = kept_lines[remembered.fetch_add(1) % kLastEventsMax];
  const size_t bytes = std::min(line.size(), kLastEventBytesMax);
  ::memcpy(to.text, line.data(), bytes);
  to.bytes = static_cast<uint32_t>(bytes);
}

void DumpLastEvents(int fd) {
  const uint64_t end = remembered;
  const uint64_t begin = end - std::min<uint64_t>(end, kLastEventsMax);
  for (uint64_t i = begin; i < end; ++i) {
    const KeptLine& line = kept_lines[i % kLastEventsMax];
    WriteAll(fd, {line.text, std::min<size_t>(line.bytes, kLastEventBytesMax)});
    WriteAll(fd, "\n");
  }
}

void DumpLastEventsOnFatalSignals() {
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // sanitizers have handlers of their own
  void* first[1];
  ::backtrace(first, 1);         // loads its library now: a handler must not
  static char stack[128 << 10];  // for a thread with an overflowed stack
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  ::sigaltstack(&other, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction action {};
    action.sa_handler = OnFatalSignal;
    action.sa_flags = static_cast<int>(SA_ONSTACK | SA_NODEFER);
    ::sigaction(signal, &action, nullptr);
  }
#endif
}

}  // namespace paracord
