// DIR of a job as `paracord train` finds it before a cluster starts in it: whether it is free and
// can be written, and how it is emptied without losing what keeps an older coordinator out.
// Blocking, in main's thread; nothing here starts a process.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/rpc.h"

namespace paracord {

// In a job's directory.
inline constexpr char kLockName[] = "lock";
// What its processes trace, until train puts it together.
inline constexpr std::string_view kTracePartsPrefix = "trace.tmp-";
// The job as train read it, which a coordinator that is started again reads too: its own file may
// have changed since.
inline constexpr char kRunningJobName[] = "job.running.json";

// Whether a job leaves a file or directory of that name in its own, beside the lock.
bool IsOfJob(std::string_view name);

// Locks `dir` for this process and finds out whether it can be written: a full disk would take the
// logs that say so, too. ALREADY_EXISTS: another train works in `dir`; any other error says that it
// cannot be written, and why. The descriptor is the lock, for as long as it is open.
absl::StatusOr<int> TakeDir(Files& files, const std::string& dir);

// Whether the lock in `dir` is still that one: false once somebody removed or moved `dir`, so that
// another train may take what is there now. An error to look is none to tell.
bool HoldsDir(int lock, const std::string& dir);

// Removes everything that a job leaves behind in `dir`, and nothing else: nothing at all where no
// coordinator ever led, and INVALID_ARGUMENT if there are checkpoints then. ALREADY_EXISTS: a
// coordinator that leads the job in `dir` answers at `dir`/coordinator.address. One that does not
// answer (stopped, hung, cut off) finds a newer generation claimed than its own when it wakes:
// claims are counted on, never anew. The caller has blocked the signals that it waits for: threads
// may start.
absl::Status BeginAnew(Files& files, Network& network, const std::string& dir);

}  // namespace paracord
