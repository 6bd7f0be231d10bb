// The directory of a job (DIR) as `paracord train` finds it before a cluster starts in it: whether
// it is free and can be written, and how it is emptied without losing the claims that keep an older
// coordinator out. Blocking, in main's thread; nothing here starts a process.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/rpc.h"

namespace paracord {

// These names are relative to the job's directory.
inline constexpr char kLockName[] = "lock";
// The prefix of the directory where the processes write their spans, until train merges them.
inline constexpr std::string_view kTraceDirPrefix = "trace.tmp-";
// The job as train read it. A coordinator that is restarted reads this file, since the user's own
// may have changed.
inline constexpr char kRunningJobName[] = "job.running.json";
// The initial weights that train takes from a file of Keras.
inline constexpr char kInitialWeightsName[] = "initial.safetensors";

// Whether a job creates a file or directory of that name in its directory; the lock is none of
// them.
bool IsOfJob(std::string_view name);

// Locks `dir` for this process and checks that it can be written, because a full disk would take
// the logs that say so as well. Returns a descriptor that holds the lock while it is open.
// ALREADY_EXISTS: another train works in `dir`. Any other error says that `dir` cannot be written,
// and why.
absl::StatusOr<int> TakeDir(Files& files, const std::string& dir);

// Whether `lock` is still the lock file in `dir`. False once somebody removed or moved `dir`, so
// that another train may take whatever is there now; true if that cannot be found out.
bool HoldsDir(int lock, const std::string& dir);

// Removes everything that a job left behind in `dir`, and nothing else. It removes nothing if no
// coordinator ever led there, and returns INVALID_ARGUMENT if there are checkpoints nevertheless.
// ALREADY_EXISTS: the coordinator that leads the job in `dir` answers at `dir`/coordinator.address.
// A coordinator that does not answer (stopped, hung, cut off) finds a newer generation than its own
// when it wakes, because generations count on. The caller has blocked the signals that it waits
// for, since this may start threads.
absl::Status BeginAnew(Files& files, Network& network, const std::string& dir);

}  // namespace paracord
