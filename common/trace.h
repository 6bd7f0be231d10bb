// Spans of time of this process in Chrome's trace format, for `paracord train --trace`. They are
// written as they end, so that a killed process leaves what it had. Off, a span costs one relaxed
// load. Times are of CLOCK_MONOTONIC, which all processes of a machine share. Thread-safe; one
// trace a process. Not for the simulator: nothing reads it back.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// Begins to write to `path`, at most 256 MiB. `process` is what the trace calls this process. Each
// line of the file is one event and ends with a comma: the whole is put together by who asked.
absl::Status StartTrace(Files& files, const std::string& path, const std::string& process);
// Writes what is still in memory; before the process ends.
void FlushTrace();

namespace trace_internal {
extern std::atomic<bool> on;
int64_t NowUs();
void Write(const char* name, int64_t begin_us, int64_t track);
}  // namespace trace_internal

inline constexpr int64_t kTraceOff = -1;

// For a span that ends elsewhere: TraceEnd with the same begin.
inline int64_t TraceBegin() {
  if (!trace_internal::on.load(std::memory_order_relaxed)) return kTraceOff;
  return trace_internal::NowUs();
}
// `track`: 0 is the calling thread's; others have a line of their own, because spans of a thread
// must not overlap. `name` is not escaped.
inline void TraceEnd(const char* name, int64_t begin_us, int64_t track = 0) {
  if (begin_us != kTraceOff) trace_internal::Write(name, begin_us, track);
}

// A span that was measured, from NowUs' clock.
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
