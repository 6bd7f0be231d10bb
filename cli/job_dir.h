// The directory of a job (DIR) before `paracord train` starts a cluster in it. The functions check
// whether DIR is free and writable, and empty DIR while locking out the coordinators of the earlier
// job. Blocking, in main's thread; starts no process.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/rpc.h"

namespace paracord {

// The names of files in the job's directory.
inline constexpr char kLockName[] = "lock";
// The prefix of the directory in which processes write traces, until `paracord train` merges them.
inline constexpr std::string_view kTraceDirPrefix = "trace.tmp-";
// The job as `paracord train` read it. Coordinators read this file, because the user's own job file
// may change before a restart.
inline constexpr char kRunningJobName[] = "job.running.json";
// Initial weights that `paracord train` converted from a Keras file.
inline constexpr char kInitialWeightsName[] = "initial.safetensors";

// Checks `address`, the text of `dir`/coordinator.address. NOT_FOUND if it stands for all
// interfaces of a machine, such as 0.0.0.0:7400: such an address leads to the coordinator only on
// the coordinator's own machine. The error says which flags of a command to give.
absl::Status CheckNamesMachine(const std::string& dir, const std::string& address);

// Whether a job makes a file or directory `name` in its directory. False for the lock.
bool IsOfJob(std::string_view name);

// Locks `dir` for this process, and checks that files can be written there: with a full disk, no
// log could report the problem. Returns a descriptor that holds the lock while it is open. If the
// file system has no locks, logs a warning and returns the descriptor without a lock.
// ALREADY_EXISTS: another `paracord train` works in `dir`. Any other error says why `dir` cannot be
// written.
absl::StatusOr<int> TakeDir(Files& files, const std::string& dir);

// Whether the descriptor `lock` is still that of the lock file in `dir`. False once somebody has
// removed or moved `dir`, so that another `paracord train` may lock a new directory of that name.
// True if this cannot be found out.
bool HoldsDir(int lock, const std::string& dir);

// Removes what a job left in `dir`, except the lock. First claims the next generation, and keeps
// the claim: a coordinator of the earlier job that does not answer (stopped, hung, cut off) later
// finds a newer generation than its own. If no coordinator ever ran in `dir`, removes nothing, and
// returns INVALID_ARGUMENT if there are checkpoints nevertheless. ALREADY_EXISTS: the coordinator
// of the job in `dir` answers at `dir`/coordinator.address. The caller has blocked the signals that
// it waits for, since BeginAnew may start threads.
absl::Status BeginAnew(Files& files, Network& network, const std::string& dir);

}  // namespace paracord
