// The directory of a job (DIR) before `paracord train` starts a cluster in it: whether it is free
// and writable, and how to empty it while keeping the claims that lock out older coordinators.
// Blocking, in main's thread; starts no process.
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
// The prefix of the directory to which processes write spans, until train merges the spans.
inline constexpr std::string_view kTraceDirPrefix = "trace.tmp-";
// The job as train read it. Restarted coordinators read this file, since the user's own file may
// change.
inline constexpr char kRunningJobName[] = "job.running.json";
// Initial weights that train converted from a Keras file.
inline constexpr char kInitialWeightsName[] = "initial.safetensors";

// NOT_FOUND if `address`, which `dir`/coordinator.address holds, is one at which a coordinator
// listens on all interfaces, such as 0.0.0.0:7400: it leads to the coordinator on its own machine
// alone. The error says what to give in its place.
absl::Status CheckNamesMachine(const std::string& dir, const std::string& address);

// Whether a job creates a file or directory of that name in its directory. False for the lock.
bool IsOfJob(std::string_view name);

// Locks `dir` for this process and checks that it can be written: with a full disk, no log could
// report the problem. Returns a descriptor that holds the lock while open. ALREADY_EXISTS: another
// train works in `dir`. Any other error says why `dir` cannot be written.
absl::StatusOr<int> TakeDir(Files& files, const std::string& dir);

// Whether `lock` is still the lock file in `dir`. False once somebody removed or moved `dir`, so
// that another train may take whatever is there now; true if that cannot be found out.
bool HoldsDir(int lock, const std::string& dir);

// Removes everything that a job left in `dir`, and nothing else; removes nothing if no coordinator
// ever led there (INVALID_ARGUMENT if there are checkpoints nevertheless). ALREADY_EXISTS: the
// coordinator of the job in `dir` answers at `dir`/coordinator.address. A coordinator that does not
// answer (stopped, hung, cut off) later finds a newer generation than its own, because generations
// count on. The caller has blocked the signals that it waits for, since this may start threads.
absl::Status BeginAnew(Files& files, Network& network, const std::string& dir);

}  // namespace paracord
