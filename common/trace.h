// Spans of this process in Chrome's trace format, for `paracord train --trace`. Spans are buffered,
// and a killed process loses the buffer: an ending span writes the buffer to the file if the buffer
// is full or the last write was 100 ms ago. Disabled tracing costs one relaxed load a span. Times
// are CLOCK_MONOTONIC, shared by all processes of a machine, and not the clock of Environment: no
// decision depends on a trace, and simulated processes write none. Thread-safe; one trace for each
// process.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Begins to write a trace of at most 256 MiB to `path`, under the name `process`. Each line of the
// file is an event followed by a comma; `paracord train` joins the files.
absl::Status StartTrace(Files& files, const std::string& path, const std::string& process);
// Writes buffered spans; called before the process ends.
void FlushTrace();

namespace trace_internal {
extern std::atomic<bool> on;
int64_t NowUs();
void Write(const char* name, int64_t begin_us, int64_t track);
}  // namespace trace_internal

inline constexpr int64_t kTraceOff = -1;

// Begins a span; pass the result to TraceEnd.
inline int64_t TraceBegin() {
  if (!trace_internal::on.load(std::memory_order_relaxed)) return kTraceOff;
  return trace_internal::NowUs();
}
// Ends a span. A viewer shows each track as a row: `track` 0 is the row of the calling thread.
// Spans that overlap, without one being inside the other, need different tracks. `name` must be
// valid inside a JSON string.
inline void TraceEnd(const char* name, int64_t begin_us, int64_t track = 0) {
  if (begin_us != kTraceOff) trace_internal::Write(name, begin_us, track);
}

// Records a span that has ended. Times are microseconds of CLOCK_MONOTONIC.
void TraceDone(const char* name, int64_t begin_us, int64_t end_us, int64_t track);
inline bool TraceOn() { return trace_internal::on.load(std::memory_order_relaxed); }

class TraceSpan {
 public:
  explicit TraceSpan(const char* name) : name_(name), begin_us_(TraceBegin()) {}
  ~TraceSpan() { TraceEnd(name_, begin_us_); }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const char* const name_;
  const int64_t begin_us_;
};

}  // namespace paracord
