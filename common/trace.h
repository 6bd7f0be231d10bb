// Writes a trace of this process: its spans (pieces of work with begin and end), in the format of
// Chrome's trace viewer. Spans are kept in a buffer, which is lost if the process is killed. The
// end of a span writes the buffer to the file if the buffer is full, or if the last write was at
// least 100 ms ago. While tracing is off, a span costs one relaxed load. Times are of
// CLOCK_MONOTONIC, which all processes of a machine share, and not of the clock in Environment: no
// decision depends on a trace, and simulated processes write none. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Begins a trace of at most 256 MiB in the file `path`. A viewer shows `process` as the name of
// this process. Each line of the file is an event and a comma; `paracord train` joins the files.
absl::Status StartTrace(Files& files, const std::string& path, const std::string& process);
// Writes the buffer to the file. Called before the process ends.
void FlushTrace();

namespace trace_internal {
extern std::atomic<bool> on;
int64_t NowUs();
void Write(const char* name, int64_t begin_us, int64_t track);
}  // namespace trace_internal

inline constexpr int64_t kTraceOff = -1;

// Begins a span. The result is to be passed to TraceEnd.
inline int64_t TraceBegin() {
  if (!trace_internal::on.load(std::memory_order_relaxed)) return kTraceOff;
  return trace_internal::NowUs();
}
// Ends a span. A viewer shows each track as a row; `track` 0 means the row of the calling thread.
// Spans that overlap, neither inside the other, need different tracks. `name` must be valid inside
// a JSON string.
inline void TraceEnd(const char* name, int64_t begin_us, int64_t track = 0) {
  if (begin_us != kTraceOff) trace_internal::Write(name, begin_us, track);
}

// Records a span that has ended. Times are in microseconds.
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
