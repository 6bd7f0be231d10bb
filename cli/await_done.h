// Waits for the end of a job that other processes train, by reading the summary in the job's
// directory. Blocking.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// How long the summary of a failed job has to stay unchanged until no restart is expected. A
// coordinator that starts again removes the summary of the run before. kFailedForGood is for a
// failure that would recur: the summary may still be that of an earlier run, whose job a person has
// mended and is starting again now. kFailedForNow is for a failure that a restart may mend:
// supervisors pause for minutes before they try again.
inline constexpr std::chrono::seconds kFailedForGood(60);
inline constexpr std::chrono::seconds kFailedForNow(3600);

// Waits until the summary in `dir` says that the job is done, however long that takes, also while
// the job is stopped. `pause` is called between two looks, and returns how long it took.
// FAILED_PRECONDITION gives the summary's reason: the job has failed, and nobody has started it
// again.
absl::Status AwaitDone(Files& files, const std::string& dir,
                       const std::function<std::chrono::seconds()>& pause);

}  // namespace paracord
