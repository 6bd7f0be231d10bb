// The job that a directory holds from an earlier run, for whoever has to know it before a
// coordinator leads there. Blocking; changes nothing.
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

// Returns the job of the newest job.state in `dir`, or else of the newest checkpoint. nullopt if
// `dir` holds neither, or if they cannot be read: a coordinator that starts there says why.
std::optional<SavedJob> ReadSavedJob(Files& files, const std::string& dir);

// INVALID_ARGUMENT names the keys that keep `now` from going on in a directory that holds `before`,
// and what to do. `accepted` is that of CheckResumable.
absl::Status CheckGoesOn(const SavedJob& before, const Job& now,
                         std::span<const std::string> accepted);

}  // namespace paracord
