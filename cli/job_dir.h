// The directory of a job (DIR) before `paracord train` starts a cluster in it: whether DIR is free
// and writable, and how to empty it and lock out the coordinators of the earlier job. Blocking, in
// main's thread; starts no process.
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
// The prefix of the directory in which processes write traces, until train merges the traces.
inline constexpr std::string_view kTraceDirPrefix = "trace.tmp-";
// The job as train read it. Restarted coordinators read this file, since the user's own file may
// change.
inline constexpr char kRunningJobName[] = "job.running.json";
// Initial weights that train converted from a Keras file.
inline constexpr char kInitialWeightsName[] = "initial.safetensors";

// NOT_FOUND if `address`, the text of `dir`/coordinator.address, stands for all interfaces, such as
// 0.0.0.0:7400: only on the coordinator's own machine does such an address lead to it. The error
// says which flags to give.
absl::Status CheckNamesMachine(const std::string& dir, const std::string& address);

// Whether a job creates a file or directory `name` in its directory. False for the lock.
bool IsOfJob(std::string_view name);

// Locks `dir` for this process and checks that it can be written: with a full disk, no log could
// report the problem. Returns a descriptor that holds the lock while open (without a lock, after a
// warning in the log, if the file system has no locks). ALREADY_EXISTS: another train works in
// `dir`. Any other error says why `dir` cannot be written.
absl::StatusOr<int> TakeDir(Files& files, const std::string& dir);

// Whether `lock` is still the lock file in `dir`. False once somebody removed or moved `dir`, so
// that another train may lock a new directory of that name; true if this cannot be found out.
bool HoldsDir(int lock, const std::string& dir);

// Removes everything that a job left in `dir`, except the lock, and nothing else. If no coordinator
// ever ran there, removes nothing, and returns INVALID_ARGUMENT if there are checkpoints
// nevertheless. ALREADY_EXISTS: the coordinator of the job in `dir` answers at
// `dir`/coordinator.address. A coordinator that does not answer (stopped, hung, cut off) later
// finds a newer generation than its own, because BeginAnew claims the next one. The caller has
// blocked the signals that it waits for, since BeginAnew may start threads.
absl::Status BeginAnew(Files& files, Network& network, const std::string& dir);

}  // namespace paracord
