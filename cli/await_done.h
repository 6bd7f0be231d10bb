// Waits for the end of a job that other processes train, by reading its summary repeatedly.
// Blocking.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// How long the summary has to say "failed", unchanged, until AwaitDone expects no restart of the
// job: a coordinator that starts removes the summary of the run before. kFailedForGood is for a
// failure that would happen again; the wait is for a person who has mended the job after an earlier
// run and is starting the job now. kFailedForNow is for a failure that a restart may mend: a
// supervisor may pause for minutes before it starts the job again.
inline constexpr std::chrono::seconds kFailedForGood(60);
inline constexpr std::chrono::seconds kFailedForNow(3600);

// Waits without a limit until the summary in `dir`, the job's directory, says that the job is done.
// Calls `pause` between two readings; `pause` returns how long it took. FAILED_PRECONDITION: the
// job has failed, and nobody has started it again; the error contains the summary's reason.
absl::Status AwaitDone(Files& files, const std::string& dir,
                       const std::function<std::chrono::seconds()>& pause);

}  // namespace paracord
