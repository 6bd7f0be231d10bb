#include "coordinator/saved_job.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/job_state.h"
#include "coordinator/generations.h"
#include "storage/checkpoint.h"

namespace paracord {
namespace {

std::optional<SavedJob> SavedOf(const std::string& job_json, const DataPlan& plan) {
  absl::StatusOr<Job> job = ParseJob(job_json);
  if (!job.ok()) return std::nullopt;
  return SavedJob{*std::move(job), plan};
}

}  // namespace

std::optional<SavedJob> ReadSavedJob(Files& files, const std::string& dir) {
  const auto states = NumbersOf(files, dir, kStatePrefix);
  if (!states.ok()) return std::nullopt;
  if (!states->empty()) {
    const std::string path = absl::StrCat(dir, "/", kStatePrefix, states->back());
    const absl::StatusOr<std::string> text = files.ReadWhole(path);
    if (!text.ok()) return std::nullopt;
    const absl::StatusOr<JobState> state = ParseJobState(*text, path);
    if (state.ok()) return SavedOf(state->job_json, state->plan);
  }
  const std::string checkpoints = CheckpointsDirectory(dir);
  const auto names = ListCheckpoints(files, checkpoints);
  if (!names.ok()) return std::nullopt;
  for (const CheckpointName& name : *names) {
    const auto manifest = ReadManifest(files, checkpoints + "/" + name.ToString());
    if (manifest.ok()) return SavedOf(manifest->job_json, manifest->plan);
  }
  return std::nullopt;
}

absl::Status CheckGoesOn(const SavedJob& before, const Job& now,
                         std::span<const std::string> accepted) {
  const absl::Status same = CheckResumable(before.job, now, before.plan, accepted);
  if (same.ok()) return same;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(same.message()),
                   "; give it as it was, or begin anew: another --dir, or with paracord train "
                   "--fresh"));
}

}  // namespace paracord
