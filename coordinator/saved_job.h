// Reads the job that an earlier run left in a directory, before a coordinator leads there.
// Blocking; changes nothing.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/files.h"
#include "config/data_plan.h"
#include "config/job.h"

namespace paracord {

struct SavedJob {
  Job job;
  DataPlan plan;
};

// Returns the job of the newest job.state in `dir`, or, if it is missing or damaged, of the newest
// checkpoint with a readable manifest. nullopt if there is none or it cannot be read: the
// coordinator that starts in `dir` reports the error.
std::optional<SavedJob> ReadSavedJob(Files& files, const std::string& dir);

// Checks that the job `before` can go on as `now`. INVALID_ARGUMENT names the keys that must not
// differ, and what to do. `accepted` are program files that may have changed (CheckResumable).
absl::Status CheckGoesOn(const SavedJob& before, const Job& now,
                         std::span<const std::string> accepted);

}  // namespace paracord
