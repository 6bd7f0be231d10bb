// Waits for the end of a job that other processes train, by the summary in its directory. Blocking.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// How long the summary of a failed job has to stay unchanged until no restart is expected. A new
// coordinator removes the old summary. kFailedForGood is for a failure that would recur: a person
// who has mended the job starts the coordinator at about the time when this wait begins.
// kFailedForNow is for a failure that a restart may mend: supervisors pause for minutes before they
// try again.
inline constexpr std::chrono::seconds kFailedForGood(60);
inline constexpr std::chrono::seconds kFailedForNow(3600);

// Waits until the summary in `dir` says that the job is done, however long that takes, also while
// the job is stopped. `pause` is called between two looks, and returns how long it took.
// FAILED_PRECONDITION gives the summary's reason: the job has failed, and nobody has started it
// again.
absl::Status AwaitDone(Files& files, const std::string& dir,
                       const std::function<std::chrono::seconds()>& pause);

}  // namespace paracord
