#include "common/trace.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace paracord {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr int64_t kFlushUs = 100000;  // the most time lost with a killed process
constexpr uint64_t kFileBytesMax = uint64_t{256} << 20;

struct Trace {
  Mutex mu;
  std::unique_ptr<WriteFile> file ABSL_GUARDED_BY(mu);
  std::string buffer ABSL_GUARDED_BY(mu);
  uint64_t bytes ABSL_GUARDED_BY(mu) = 0;
  int64_t flushed_us ABSL_GUARDED_BY(mu) = 0;
};

// The trace is never destroyed: threads may end spans until the process is gone.
Trace& TheTrace() {
  static Trace* const trace = new Trace;
  return *trace;
}

// A full disk ends the trace, but nothing else.
void Flush(Trace& trace) ABSL_EXCLUSIVE_LOCKS_REQUIRED(trace.mu) {
  if (trace.file == nullptr) return;
  trace.bytes += trace.buffer.size();
  if (!trace.file->Append(trace.buffer).ok() || trace.bytes > kFileBytesMax) {
    trace_internal::on = false;
    trace.file.reset();
  }
  trace.buffer.clear();
}

}  // namespace

namespace trace_internal {

std::atomic<bool> on = false;

int64_t NowUs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
}

void Write(const char* name, int64_t begin_us, int64_t track) {
  thread_local const int64_t thread = syscall(SYS_gettid);
  TraceDone(name, begin_us, NowUs(), track == 0 ? thread : track);
}

}  // namespace trace_internal

void TraceDone(const char* name, int64_t begin_us, int64_t end_us, int64_t track) {
  static const pid_t pid = getpid();
  Trace& trace = TheTrace();
  MutexLock lock(trace.mu);
  absl::StrAppend(&trace.buffer, "{\"name\":\"", name, "\",\"ph\":\"X\",\"ts\":", begin_us,
                  ",\"dur\":", end_us - begin_us, ",\"pid\":", pid, ",\"tid\":", track, "},\n");
  const int64_t now_us = trace_internal::NowUs();
  if (trace.buffer.size() >= kBufferBytes || now_us - trace.flushed_us >= kFlushUs) {
    trace.flushed_us = now_us;
    Flush(trace);
  }
}

absl::Status StartTrace(Files& files, const std::string& path, const std::string& process) {
  ASSIGN_OR_RETURN(std::unique_ptr<WriteFile> file, files.Create(path));
  Trace& trace = TheTrace();
  MutexLock lock(trace.mu);
  trace.file = std::move(file);
  const nlohmann::json name = {
      {"name", "process_name"}, {"ph", "M"}, {"pid", getpid()}, {"args", {{"name", process}}}};
  trace.buffer = TextOf(name) + ",\n";
  trace.bytes = 0;
  Flush(trace);
  trace_internal::on = trace.file != nullptr;
  return absl::OkStatus();
}

void FlushTrace() {
  Trace& trace = TheTrace();
  MutexLock lock(trace.mu);
  Flush(trace);
}

}  // namespace paracord
