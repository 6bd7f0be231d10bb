// Waits for the end of a job that other processes train, by the summary in its directory. Blocking.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"

namespace paracord {

// How long a summary of a job that failed has to stay as it is until nobody is expected to start
// the job again: after a failure that another start repeats, somebody who has mended the job starts
// its coordinator about when this wait begins, which takes the old summary away; after a failure
// that another start may mend, supervisors pause for minutes before they try again.
inline constexpr std::chrono::seconds kFailedForGood(60);
inline constexpr std::chrono::seconds kFailedForNow(3600);

// Waits until the summary in `dir` says that the job is done, however long that takes; a job that
// was stopped is waited for as well. `pause` is called between two looks, and returns how long it
// took. FAILED_PRECONDITION: the job has failed, with the reason that the summary gives, and nobody
// has started it again.
absl::Status AwaitDone(Files& files, const std::string& dir,
                       const std::function<std::chrono::seconds()>& pause);

}  // namespace paracord
